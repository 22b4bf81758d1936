"""The ways in which people start a program: what the probe sees is the same."""

import os
import shutil
import stat
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.frameworks.runs import BIN, PROGRAMS, Seen, assert_close, seen_command

ITERATIONS = 12
PLAIN = PROGRAMS / "torch_shapes.py"


def seen_plainly(command: list[str], directory: Path) -> None:
    found = seen_command(command, iterations=ITERATIONS, trace=False, directory=directory)
    assert found.measured.ending == "enough"
    assert len(found.profile.iteration_seconds) == ITERATIONS
    assert list(found.profile.loss) == found.own["losses"][:ITERATIONS]
    assert_close(found.profile.steady_iteration_seconds, [b - a for a, b in pairwise(found.own["ends"][:ITERATIONS])])


def test_module_of_a_package(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(PLAIN, package / "__main__.py")
    seen_plainly([sys.executable, "-m", "pkg", "autocast"], tmp_path)


def test_shell_script(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"set -e\ncd {PROGRAMS}\necho begins\n{sys.executable} torch_shapes.py autocast\n")
    seen_plainly(["bash", str(script)], tmp_path)


def test_env_that_sets_a_variable(tmp_path: Path) -> None:
    seen_plainly(["env", "X=1", sys.executable, str(PLAIN), "autocast"], tmp_path)


def test_console_script(tmp_path: Path) -> None:
    script = tmp_path / "train-it"
    body = f"#!{sys.executable}\nimport runpy, sys\nsys.argv = ['train-it', 'autocast']\n"
    script.write_text(body + f"sys.exit(runpy.run_path({str(PLAIN)!r}, run_name='__main__') and 0)\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    seen_plainly([str(script)], tmp_path)


def test_uv_run(tmp_path: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(BIN))
    if uv is None:
        pytest.skip("uv is not installed: `uv run` is not tried")
    seen_plainly([uv, "run", "--no-project", "--offline", "--python", sys.executable, str(PLAIN), "autocast"], tmp_path)


@pytest.mark.heavy
def test_accelerate_launch(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    launch = [str(BIN / "accelerate"), "launch", "--cpu", "--num_processes", "1", "--num_machines", "1"]
    seen_plainly([*launch, "--mixed_precision", "no", "--dynamo_backend", "no", str(PLAIN), "autocast"], tmp_path)


@pytest.fixture(scope="module", params=["torchrun", "spawn"])
def distributed(request: pytest.FixtureRequest) -> Seen:
    program = str(PROGRAMS / "torch_distributed.py")
    if request.param == "spawn":
        return seen_command([sys.executable, program, "spawn"], iterations=ITERATIONS)
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2"]
    return seen_command([*torchrun, program], iterations=ITERATIONS)


def test_processes_make_one_batch_together(distributed: Seen) -> None:
    assert distributed.profile.world_size == 2
    assert (distributed.profile.micro_batch_size, distributed.profile.effective_batch_size) == (5, 10)
    assert (distributed.profile.iterations_per_epoch, distributed.profile.samples) == (10, 100)
    assert len(distributed.profile.iteration_seconds) == ITERATIONS


def test_processes_take_what_they_clocked(distributed: Seen) -> None:
    own = [b - a for a, b in pairwise(distributed.own["ends"][:ITERATIONS])]
    assert_close(distributed.profile.steady_iteration_seconds, own)


def test_processes_send_the_gradient_once_around_a_ring_of_two(distributed: Seen) -> None:
    gradient = distributed.own["gradient_bytes"]
    assert distributed.profile.gradient_bytes == gradient
    if distributed.profile.sent_bytes is None:
        pytest.skip("the kernel does not tell what a connection sent")
    assert gradient <= distributed.profile.sent_bytes < 1.2 * gradient
    assert distributed.profile.received_bytes == pytest.approx(distributed.profile.sent_bytes, rel=0.2)


def test_processes_have_all_ended(distributed: Seen) -> None:
    assert distributed.measured.ending == "enough"
    trained = {event["pid"] for event in distributed.measured.events if event["event"] == "iteration"}
    assert len(trained) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in trained if pid != os.getpid())
