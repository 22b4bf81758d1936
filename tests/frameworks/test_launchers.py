"""Programs started in different ways have the same profile."""

import os
import shutil
import stat
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.frameworks.runs import BIN, PROGRAMS, ProfiledRun, assert_close, profile_from, run_profiled_command
from tests.needs import need_installed

ITERATIONS = 12
PLAIN = PROGRAMS / "torch_shapes.py"


def assert_profiled(command: list[str], directory: Path) -> None:
    found = run_profiled_command(command, iterations=ITERATIONS, trace=False, directory=directory)
    assert found.measured.ending == "enough"
    assert len(found.profile.iteration_seconds) == ITERATIONS
    assert list(found.profile.loss) == found.own["losses"][:ITERATIONS]
    assert_close(found.profile.steady_iteration_seconds, [b - a for a, b in pairwise(found.own["ends"][:ITERATIONS])])


def test_module_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(PLAIN, package / "__main__.py")
    assert_profiled([sys.executable, "-m", "pkg", "autocast"], tmp_path)


def test_shell_script(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"set -e\ncd {PROGRAMS}\necho begins\n{sys.executable} torch_shapes.py autocast\n")
    assert_profiled(["bash", str(script)], tmp_path)


def test_env_that_sets_a_variable(tmp_path: Path) -> None:
    assert_profiled(["env", "X=1", sys.executable, str(PLAIN), "autocast"], tmp_path)


def test_console_script(tmp_path: Path) -> None:
    script = tmp_path / "train-it"
    body = f"#!{sys.executable}\nimport runpy, sys\nsys.argv = ['train-it', 'autocast']\n"
    script.write_text(body + f"sys.exit(runpy.run_path({str(PLAIN)!r}, run_name='__main__') and 0)\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert_profiled([str(script)], tmp_path)


def test_uv_run(tmp_path: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(BIN))
    if uv is None:
        pytest.skip("uv is not installed")
    assert_profiled(
        [uv, "run", "--no-project", "--offline", "--python", sys.executable, str(PLAIN), "autocast"], tmp_path
    )


@pytest.mark.heavy
def test_accelerate_launch(tmp_path: Path) -> None:
    need_installed("accelerate")
    launch = [str(BIN / "accelerate"), "launch", "--cpu", "--num_processes", "1", "--num_machines", "1"]
    assert_profiled([*launch, "--mixed_precision", "no", "--dynamo_backend", "no", str(PLAIN), "autocast"], tmp_path)


@pytest.fixture(scope="module", params=["torchrun", "spawn"])
def distributed(request: pytest.FixtureRequest) -> ProfiledRun:
    program = str(PROGRAMS / "torch_distributed.py")
    if request.param == "spawn":
        return run_profiled_command([sys.executable, program, "spawn"], iterations=ITERATIONS)
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]
    return run_profiled_command([*torchrun, program], iterations=ITERATIONS)


def test_batch_size_is_that_of_all_processes(distributed: ProfiledRun) -> None:
    assert distributed.profile.world_size == 2
    assert (distributed.profile.micro_batch_size, distributed.profile.effective_batch_size) == (5, 10)
    assert (distributed.profile.iterations_per_epoch, distributed.profile.samples) == (10, 100)
    assert len(distributed.profile.iteration_seconds) == ITERATIONS


@pytest.mark.clocks
def test_iteration_times_of_processes_agree_with_the_program(distributed: ProfiledRun) -> None:
    own = [b - a for a, b in pairwise(distributed.own["ends"][:ITERATIONS])]
    reporting = [event for event in distributed.measured.events if event["pid"] == distributed.own["pid"]]
    profile = profile_from(replace(distributed.measured, events=tuple(reporting)))
    assert_close(profile.steady_iteration_seconds, own)


def test_ring_of_two_processes_sends_the_gradient_once(distributed: ProfiledRun) -> None:
    gradient = distributed.own["gradient_bytes"]
    assert distributed.profile.gradient_bytes == gradient
    if distributed.profile.sent_bytes is None:
        pytest.skip("the kernel does not report the bytes of a connection")
    assert gradient <= distributed.profile.sent_bytes < 1.2 * gradient
    assert distributed.profile.received_bytes == pytest.approx(distributed.profile.sent_bytes, rel=0.2)


def test_all_processes_have_ended(distributed: ProfiledRun) -> None:
    assert distributed.measured.ending == "enough"
    trained = {event["pid"] for event in distributed.measured.events if event["event"] == "iteration"}
    assert len(trained) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in trained if pid != os.getpid())
