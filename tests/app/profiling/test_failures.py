"""What the error of a measurement says: real programs that come to nothing, and runs that were killed."""

import signal
import sys
from pathlib import Path

import pytest

from tests.model.test_startup import make_memory, make_model, make_startup
from tests.needs import need
from tests.pythons import python_with
from trainfare.app.profiling.failures import ProfilingError, profiling_error
from trainfare.app.profiling.profile import profile
from trainfare.model.profile import Ending
from trainfare.model.program import Program
from trainfare.profiler.measure import MeasuredRun
from trainfare.profiler.memory import MemoryWatch
from trainfare.profiler.output import Log
from trainfare.profiler.workspace import Workspace
from trainfare.settings import Settings
from trainfare.store.open import open_history

PROGRAMS = Path(__file__).parents[2] / "programs"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "history.db"), stall_seconds=600)


def error_of(
    ending: Ending, *, output: str = "", exit_code: int | None = None, directory: str = "/home/ada", **facts: object
) -> ProfilingError:
    log = Log()
    log.add(output.encode())
    return profiling_error(
        Program(command=("python", "train.py"), directory=directory),
        MeasuredRun(events=(), started=0.0, ending=ending, exit_code=exit_code, log=log, **facts),  # type: ignore[arg-type] # fields by name, of several types
        Workspace(directory=Path("/tmp/copy/home/ada"), is_copy=True),
        None,
        stall_seconds=600,
        max_seconds=None,
        output_shown=True,
    )


def test_a_first_iteration_that_does_not_end_in_the_time_allowed_is_described(settings: Settings) -> None:
    command = (sys.executable, "ticks.py", "--hang-at", "1")
    with pytest.raises(ProfilingError, match=r"was stopped after 1\.5 s, the time allowed, before") as failure:
        profile(command, settings=settings, directory=PROGRAMS, max_seconds=1.5)
    assert failure.value.profile is None
    assert "It has imported PyTorch; no optimizer was seen yet. It uses" in failure.value.message
    assert failure.value.remedies[0].arguments == {"max_seconds": "1m"}


def test_a_single_iteration_within_the_time_allowed_is_kept(settings: Settings) -> None:
    command = (sys.executable, "ticks.py", "--hang-at", "2")
    with pytest.raises(ProfilingError, match="an estimate needs at least 2 iterations") as failure:
        profile(command, settings=settings, directory=PROGRAMS, max_seconds=1.5)
    saved = failure.value.profile
    assert saved is not None
    assert (saved.ending, len(saved.iteration_seconds)) == ("time_limit", 1)
    with open_history(settings.store) as history:
        assert history.profiles.all() == (saved,)


def test_two_iterations_within_the_time_allowed_are_a_profile(settings: Settings) -> None:
    command = (sys.executable, "ticks.py", "--hang-at", "4")
    found = profile(command, settings=settings, directory=PROGRAMS, epochs=3, max_seconds=1.5)
    assert (found.ending, len(found.iteration_seconds)) == ("time_limit", 3)


TOO_LARGE = """
import sys, time, torch
from torch import nn
# Pages that are never touched take no memory.
model = nn.ParameterList([nn.Parameter(torch.empty(int(sys.argv[1]) // 16)) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters())
time.sleep(3600)
"""


def test_a_model_that_cannot_fit_is_stopped_at_once(settings: Settings, tmp_path: Path) -> None:
    """Its weights take all memory of the machine, so that weights, gradients and state are four times as much."""
    reading = MemoryWatch(1).read()
    if reading is None:
        pytest.skip("the kernel shows no memory")
    (tmp_path / "train.py").write_text(TOO_LARGE)
    command = (sys.executable, "train.py", str(reading.total_bytes))
    with pytest.raises(ProfilingError, match="does not fit in the memory of this machine") as failure:
        profile(command, settings=settings, directory=tmp_path)
    assert "state of AdamW" in failure.value.message
    assert "Profile it with a smaller model or batch" in failure.value.message


WANTS_GPU = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
device = parser.parse_args().device
model = torch.nn.Linear(2, 2).to(device)
"""


def test_a_program_that_asks_for_a_gpu_is_told_where_and_how_to_do_without(settings: Settings, tmp_path: Path) -> None:
    torch = need("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    (tmp_path / "train.py").write_text(WANTS_GPU)
    python = python_with("torch")
    with pytest.raises(ProfilingError, match=r"The program asks for a GPU at train\.py:6") as failure:
        profile((python, "train.py"), settings=settings, directory=tmp_path)
    assert failure.value.remedies[0].program == f"{python} train.py --device cpu"


@pytest.mark.parametrize("exit_code", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_a_kill_for_lack_of_memory_is_named_with_the_peak(exit_code: int) -> None:
    error = error_of(
        "failed",
        exit_code=exit_code,
        oom_killed=True,
        memory=make_memory(total=12, program=11),
        startup=make_startup(make_model(host_optimizer_bytes=0), make_memory()),
    )
    assert "the kernel killed it because memory ran out (SIGKILL): it used 11 GiB of 12 GiB." in error.message
    assert "It made 1.07G parameters, which need weights 4 GiB + gradients 4 GiB = 8 GiB" in error.message


def test_a_kill_by_someone_else_is_not_called_lack_of_memory() -> None:
    error = error_of("failed", exit_code=-signal.SIGKILL)
    assert "killed by SIGKILL, perhaps because memory ran out." in error.message
    assert "killed by SIGTERM" in error_of("failed", exit_code=-signal.SIGTERM).message


def test_a_worker_that_was_killed_is_found_in_the_output_of_its_launcher() -> None:
    output = "torch.distributed.elastic: failed (exitcode: -9) local_rank: 1 (pid: 7)\nSignal 9 (SIGKILL) received"
    killed = error_of("failed", exit_code=1, oom_killed=True, output=output)
    assert "the kernel killed it because memory ran out" in killed.message
    assert "memory ran out" not in error_of("failed", exit_code=1, oom_killed=True, output="ValueError: 3").message


def test_memory_that_an_allocator_misses_is_named_with_the_line() -> None:
    output = (
        'Traceback (most recent call last):\n  File "/tmp/copy/home/ada/train.py", line 9, in <module>\n'
        "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes.\n"
    )
    error = error_of("failed", exit_code=1, output=output, memory=make_memory())
    assert "The memory of 12 GiB of this machine ran out at train.py:9" in error.message


def test_a_program_that_stalls_before_its_first_iteration_shows_what_it_made() -> None:
    error = error_of("stalled", startup=make_startup(make_model(), make_memory(total=64, available=40)))
    assert "It has made 1.07G parameters" in error.message
    assert "so memory is not short." in error.message
