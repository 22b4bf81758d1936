"""Real programs under the probe: what it measured, compared with what the programs measured themselves."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median, median_low
from typing import Any

import pytest

from tests.frameworks.runs import PROGRAMS, ProfiledRun, own_account, profile_from, python_for, run_alone
from trainfare.model.program import Program
from trainfare.profiler.events import summarize_events
from trainfare.profiler.measure import MeasuredRun, MeasurementProgress, measure
from trainfare.profiler.processes import is_running
from trainfare.profiler.stopping import UntilSteady

pytestmark = pytest.mark.heavy


def run(
    *arguments: str,
    iterations: int | None = 25,
    stall_seconds: float = 60,
    trace: bool = True,
    python: str = sys.executable,
) -> MeasuredRun:
    return measure(
        Program(command=(python, *arguments), directory=str(PROGRAMS)),
        iterations=iterations,
        stall_seconds=stall_seconds,
        trace_operations=trace,
        on_progress=lambda _: None,
        on_output=None,
    )


def run_profiled(*arguments: str, iterations: int | None = 25, trace: bool = True, forked: bool = True) -> ProfiledRun:
    python = python_for(*arguments) if forked else sys.executable
    measured = run(*arguments, iterations=iterations, trace=trace, python=python)
    return ProfiledRun(measured, profile_from(measured), own_account(measured.log.text()))


def assert_close(ours: Sequence[float], own: Sequence[float]) -> None:
    """Half of the pairs agree within 3 % or 0.2 ms: on a busy machine some are interrupted between two clocks."""
    off = median_low(abs(a - b) for a, b in zip(ours, own, strict=False))
    assert off < max(0.03 * median(own), 2e-4)


@pytest.fixture(scope="module")
def plain() -> ProfiledRun:
    return run_profiled("plain.py", forked=False)


@pytest.fixture(scope="module")
def without_probe() -> dict[str, Any]:
    return run_alone("plain.py", "--sleep", "0")


@pytest.mark.clocks
def test_iteration_times_agree_with_the_program(plain: ProfiledRun) -> None:
    assert len(plain.profile.iteration_seconds) == 25
    assert_close(plain.profile.steady_iteration_seconds, plain.own["iteration_seconds"][1:25])


@pytest.mark.clocks
def test_first_iteration_starts_with_its_first_batch(plain: ProfiledRun) -> None:
    own = plain.own["iteration_seconds"][0]
    assert plain.profile.first_iteration_seconds is not None
    assert plain.profile.first_iteration_seconds == pytest.approx(own, rel=0.1, abs=5e-3)


@pytest.mark.clocks
def test_validation_times_agree_with_the_program(plain: ProfiledRun) -> None:
    assert len(plain.profile.validation_seconds) == 2
    assert_close(plain.profile.validation_seconds, plain.own["validations"])


@pytest.mark.clocks
def test_data_waits_agree_with_the_program(plain: ProfiledRun) -> None:
    assert_close(plain.profile.data_wait_seconds, plain.own["waits"][:25])


def test_counts_are_exact(plain: ProfiledRun) -> None:
    for name in ("samples", "iterations_per_epoch", "parameters"):
        assert getattr(plain.profile, name) == plain.own[name]
    assert plain.profile.micro_batch_size == plain.own["batch_size"]
    assert plain.profile.gradient_bytes == plain.own["parameters"] * 4
    assert plain.profile.optimizer == "Adam"
    assert plain.profile.learning_rate == (1e-3,) * 25
    assert plain.profile.effective_batch_size == plain.own["batch_size"]
    assert plain.profile.validation_samples == 30
    # Two moments for each parameter, and a step count for each of the six tensors.
    assert plain.profile.optimizer_bytes == 2 * plain.own["parameters"] * 4 + 6 * 4


def test_losses_equal_those_of_the_program_exactly(plain: ProfiledRun) -> None:
    assert list(plain.profile.loss) == plain.own["losses"][:25]


def test_losses_are_the_same_without_the_probe(plain: ProfiledRun, without_probe: dict[str, Any]) -> None:
    assert list(plain.profile.loss) == without_probe["losses"][:25]


def test_machine_and_framework_are_recorded(plain: ProfiledRun) -> None:
    assert plain.profile.device == "cpu"
    assert plain.profile.dtype == "float32"
    assert plain.profile.framework == "pytorch"
    assert plain.profile.init_seconds is not None
    assert plain.profile.init_seconds > 0.2
    assert plain.profile.peak_host_bytes is not None
    assert plain.profile.peak_host_bytes > 50e6
    assert plain.profile.cpu_use is not None
    assert 0 < plain.profile.cpu_use < 1.1


def test_operations_of_one_iteration_are_traced(plain: ProfiledRun) -> None:
    """A full batch of ten: convolution without gradient of the image, then a linear layer."""
    flops = {
        kind: sum(o.flops * o.count for o in plain.profile.operations if o.kind == kind)
        for kind in ("convolution", "matmul")
    }
    assert flops == {"convolution": 2 * 2 * 10 * 8 * 64 * 2 * 9, "matmul": 3 * 2 * 10 * 512 * 3}
    assert any(o.kind == "optimizer" for o in plain.profile.operations)
    assert plain.profile.activation_bytes is not None
    # At least the activations of batch norm and ReLU: two tensors of 10 × 8 × 64.
    assert 2 * 10 * 8 * 64 * 4 <= plain.profile.activation_bytes < 6 * 10 * 8 * 64 * 4


def test_probe_records_no_trouble(plain: ProfiledRun) -> None:
    assert summarize_events(plain.measured.events).troubles == ()
    assert plain.measured.ending == "enough"


@pytest.mark.clocks
def test_validation_is_recorded_without_eval_and_with_persistent_workers() -> None:
    found = run_profiled("plain.py", "--without-modes", "--workers", "1", trace=False)
    assert_close(found.profile.steady_iteration_seconds, found.own["iteration_seconds"][1:25])
    assert_close(found.profile.validation_seconds, found.own["validations"])
    assert found.profile.operations == ()
    assert {event["pid"] for event in found.measured.events} == {found.measured.events[0]["pid"]}


def test_accumulated_scaled_steps_under_autocast() -> None:
    found = run_profiled("accumulate.py", iterations=20)
    assert (found.profile.micro_batch_size, found.profile.effective_batch_size) == (5, 20)
    assert found.profile.iterations_per_epoch == 6
    assert found.profile.dtype == "bfloat16"
    assert found.profile.epochs == 4
    # The sum over the passes of losses that were divided by their number.
    assert list(found.profile.loss) == found.own["losses"][:20]


@pytest.mark.clocks
def test_first_of_two_optimizers_ends_the_iteration() -> None:
    found = run_profiled("gan.py", iterations=20)
    ends = found.own["ends"]
    assert_close(found.profile.steady_iteration_seconds, [ends[i + 1] - ends[i] for i in range(19)])
    assert found.profile.parameters == found.own["parameters"]
    assert list(found.profile.loss)[1:] == found.own["losses"][1:20]
    assert found.profile.optimizer == "Adam"
    assert (found.profile.micro_batch_size, found.profile.accumulation_steps) == (16, 1)
    assert found.profile.planned_iterations == 40


def test_forked_child_trains_from_a_stream() -> None:
    found = run_profiled("child.py", iterations=20)
    assert (found.profile.micro_batch_size, found.profile.iterations_per_epoch, found.profile.samples) == (16, 3, None)
    assert found.profile.validation_seconds == ()
    assert found.profile.framework == "pytorch"


def test_compiled_model_has_no_graph_breaks_and_is_traced() -> None:
    found = run_profiled("compiled.py", iterations=10)
    assert found.own["graph_breaks"] == 0
    flops = sum(o.flops * o.count for o in found.profile.operations)
    assert flops == 2 * (2 * 50 * 64 * 32) + 3 * (2 * 50 * 32 * 1)


def test_program_that_swallows_the_stop_is_ended() -> None:
    measured = run("stubborn.py", iterations=5, python=python_for("stubborn.py"))
    assert measured.ending == "enough"
    assert measured.log.text().count("swallowed MeasurementComplete") == 3


def test_children_do_not_outlive_the_measurement(tmp_path: Path) -> None:
    measured = run("family.py", str(tmp_path / "children"))
    children = (tmp_path / "children").read_text().split()
    assert measured.ending == "finished"
    assert len(children) == 2
    assert not any(is_running(int(pid)) for pid in children)


def test_large_output_does_not_fill_the_memory() -> None:
    measured = run("chatter.py", iterations=10, python=python_for("chatter.py"))
    assert measured.ending == "enough"
    text = measured.log.text()
    assert len(text) < 3 * 256 * 1024
    assert "bytes omitted" in text


def test_stalled_program_is_stopped_and_shows_its_traceback() -> None:
    measured = run("ticks.py", "--hang-at", "4", stall_seconds=3)
    assert measured.ending == "stalled"
    assert "time.sleep(3600" in measured.log.text()
    assert sum(event["event"] == "iteration" for event in measured.events) == 3


def test_commands_after_the_training_in_a_script_are_not_run(tmp_path: Path) -> None:
    """The training was stopped early, so commands that use its result must not run."""
    script = f"{sys.executable} {PROGRAMS / 'plain.py'} && touch {tmp_path / 'deployed'}"
    measured = measure(
        Program(command=("bash", "-c", script), directory=str(tmp_path)),
        iterations=3,
        stall_seconds=60,
        trace_operations=False,
        on_progress=lambda _: None,
        on_output=None,
    )
    assert measured.ending == "enough"
    assert not (tmp_path / "deployed").exists()


def test_sitecustomize_and_path_of_the_user_are_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.shadowed = 'ran'\n")
    (tmp_path / "mine.py").write_text("word = 'found'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    measured = run("-c", "import mine, sys; print(shadowed, mine.word, [p for p in sys.path if 'probe' in p])")
    assert measured.log.text().strip() == "ran found []"


def test_progress_counts_up(tmp_path: Path) -> None:
    shown: list[MeasurementProgress] = []
    measure(
        Program(command=(python_for("plain.py"), "plain.py", "--sleep", "0.1"), directory=str(PROGRAMS)),
        iterations=8,
        stall_seconds=60,
        trace_operations=False,
        on_progress=shown.append,
        on_output=None,
    )
    counts = [progress.iterations for progress in shown]
    assert counts == sorted(counts)
    assert any(0 < count < 8 for count in counts)
    assert shown[-1].iterations == 8
    assert shown[-1].stopping


@pytest.mark.clocks
def test_without_a_number_one_iteration_is_traced_early_and_not_timed() -> None:
    found = run_profiled("plain.py", "--sleep", "0.01", iterations=None)
    iterations = sum(event["event"] == "iteration" for event in found.measured.events)
    assert len(found.profile.iteration_seconds) == iterations - 1
    assert found.profile.operations != ()
    own = [seconds for place, seconds in enumerate(found.own["iteration_seconds"]) if place != 5]
    assert_close(found.profile.iteration_seconds[1:], own[1:])
    losses = [loss for place, loss in enumerate(found.own["losses"]) if place != 5]
    assert list(found.profile.loss) == losses[: len(found.profile.loss)]


def test_processes_that_train_together_stop_after_the_same_iteration(tmp_path: Path) -> None:
    torchrun = Path(sys.executable).parent / "torchrun"
    (tmp_path / "train.py").write_text(TOGETHER)
    measured = measure(
        Program(command=(str(torchrun), "--nproc-per-node", "2", "train.py"), directory=str(tmp_path)),
        stopping_rule=UntilSteady(max_seconds=0.5),
        stall_seconds=60,
        trace_operations=False,
        on_progress=lambda _: None,
        on_output=None,
    )
    counts = Counter(event["pid"] for event in measured.events if event["event"] == "iteration")
    assert measured.ending == "enough"
    assert len(counts) == 2
    assert len(set(counts.values())) == 1


TOGETHER = """
import time, torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
torch.set_num_threads(1)
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    time.sleep(0.01)
    model(torch.ones(2, 8)).mean().backward()
    optimizer.step()
"""
