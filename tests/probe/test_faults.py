"""If something around the probe fails, the program goes on training and the failure is reported."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

from tests.pythons import python_with
from trainfare.probe import boot
from trainfare.profiler.events import parse_events
from trainfare.profiler.measure import PROBE_SITE

pytestmark = pytest.mark.heavy

TRAIN = f"""
import sys
sys.path.append({str(Path(__file__).parents[1] / "programs")!r})
import without_compiler
import torch
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.01)
for _ in range(6):
    optimizer.zero_grad()
    weight.square().sum().backward()
    optimizer.step()
"""
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
OTHER_PYTHONS = [path for minor in range(9, 15) for path in sorted(PYENV.glob(f"3.{minor}.*/bin/python"))]


def train(
    program: str, events: Path, *, python: str | None = None, iterations: int = 100
) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PROBE_SITE),
        boot.EVENTS: str(events),
        boot.ITERATIONS: str(iterations),
        boot.OPERATIONS: "0",
    }
    command = [python or python_with("torch"), "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events"
    path.touch()
    return path


def iterations_in(events: Path) -> int:
    return sum(event["event"] == "iteration" for event in parse_events(events.read_bytes()))


def test_full_disk_is_reported_once_and_training_goes_on() -> None:
    result = train(TRAIN + "print(float(weight.detach()[0]) < 1)", Path("/dev/full"), python=sys.executable)
    assert (result.returncode, result.stdout) == (0, "True\n")
    assert result.stderr == ("trainfare: the probe cannot write its events to /dev/full: No space left on device\n")


def test_unwritable_event_file_is_reported_once_and_training_goes_on(tmp_path: Path) -> None:
    """The path is a folder, to which not even root can write."""
    result = train(TRAIN + "print('trained')", tmp_path)
    assert (result.returncode, result.stdout) == (0, "trained\n")
    assert result.stderr.count("the probe cannot write its events") == 1


def test_failure_is_not_reported_to_a_closed_stderr() -> None:
    result = train(
        "import sys\nsys.stderr.close()\nsys.stderr = None\n" + TRAIN + "print('trained')", Path("/dev/full")
    )
    assert (result.returncode, result.stdout) == (0, "trained\n")


def test_training_goes_on_silently_after_the_profiler_has_gone(tmp_path: Path) -> None:
    result = train(TRAIN + "print('trained')", tmp_path / "gone" / "events")
    assert (result.returncode, result.stdout, result.stderr) == (0, "trained\n", "")


def test_program_that_closes_its_output_and_swallows_the_stop_is_ended(events: Path) -> None:
    stubborn = "import sys\nsys.stdout.close()\n" + TRAIN.replace(
        "    optimizer.step()", "    try:\n        optimizer.step()\n    except BaseException:\n        pass"
    ).replace("range(6)", "range(10**9)")
    result = train(stubborn, events, iterations=3)
    assert (result.returncode, iterations_in(events)) == (0, 3)


def test_program_that_changes_directory_is_recorded(events: Path, tmp_path: Path) -> None:
    result = train(f"import os\nos.chdir({str(tmp_path)!r})\n" + TRAIN, events)
    assert (result.returncode, result.stderr, iterations_in(events)) == (0, "", 6)


def test_forked_child_counts_its_own_iterations(events: Path) -> None:
    """Parent and child both go on training; the events of the child have its own process id."""
    program = TRAIN + "import os\nchild = os.fork()\nfor _ in range(3):\n"
    program += "    optimizer.zero_grad()\n    weight.square().sum().backward()\n    optimizer.step()\n"
    program += "if child:\n    os.waitpid(child, 0)\n"
    result = train(program, events)
    assert (result.returncode, result.stderr) == (0, "")
    counts: dict[int, int] = {}
    for event in parse_events(events.read_bytes()):
        if event["event"] == "iteration":
            counts[event["pid"]] = counts.get(event["pid"], 0) + 1
    assert sorted(counts.values()) == [3, 9]


@pytest.mark.parametrize(
    "place", ["_step_started", "_step_ended", "_backward_started", "_backward_ended", "write", "_save_started"]
)
def test_failing_hook_is_recorded_and_never_breaks_the_program(place: str, events: Path) -> None:
    breaking = (
        "import sys, io, torch\n"
        "def broken(*args): raise LookupError('broken hook')\n"
        f"sys.modules['_trainfare_probe.torch_hooks'].TorchListener.{place} = broken\n"
    )
    listener = "sys.modules['_trainfare_probe.torch_hooks'].TorchListener.current"
    program = f"{breaking}for watch in ('steps', 'losses', 'saves'): getattr({listener}, 'watch_' + watch)()\n{TRAIN}"
    result = train(program + "torch.save(weight, io.BytesIO())\nprint('trained')", events)
    assert (result.returncode, result.stdout, result.stderr) == (0, "trained\n", "")
    troubles = [event["what"] for event in parse_events(events.read_bytes()) if event["event"] == "trouble"]
    assert troubles
    assert all("broken hook" in trouble for trouble in troubles)


def test_program_in_an_environment_without_trainfare_is_recorded(events: Path, tmp_path: Path) -> None:
    """Another virtual environment, which has PyTorch and not trainfare."""
    venv.create(tmp_path / "other", with_pip=False, symlinks=True)
    packages = next((tmp_path / "other").glob("lib/python3*/site-packages"))
    for name in Path(torch.__file__).parents[1].iterdir():
        if "trainfare" not in name.name and name.suffix != ".pth":
            (packages / name.name).symlink_to(name)
    python = str(tmp_path / "other" / "bin" / "python")
    check = "import importlib.util\nprint(importlib.util.find_spec('trainfare'))\n"
    result = train(check + TRAIN, events, python=python)
    assert (result.returncode, result.stdout, result.stderr) == (0, "None\n", "")
    assert iterations_in(events) == 6


@pytest.mark.skipif(not OTHER_PYTHONS, reason="no other Python is installed")
@pytest.mark.parametrize("python", OTHER_PYTHONS, ids=lambda python: python.parts[-3])
def test_other_pythons_import_every_file_of_the_probe_silently(python: Path, events: Path) -> None:
    imports = (
        "import importlib, pathlib, sys\n"
        "package = sys.modules['_trainfare_probe']\n"
        "for path in pathlib.Path(package.__file__).parent.glob('*.py'):\n"
        "    if path.stem != '__init__': importlib.import_module('_trainfare_probe.' + path.stem)\n"
        "print('fine')"
    )
    result = train(imports, events, python=str(python))
    assert (result.returncode, result.stdout, result.stderr) == (0, "fine\n", "")
    assert [event["event"] for event in parse_events(events.read_bytes())] == ["python"]


def test_folder_with_the_name_of_a_framework_does_not_break_an_import(events: Path, tmp_path: Path) -> None:
    (tmp_path / "paddle").mkdir()
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport paddle\nprint(paddle.__path__)\n"
    result = train(program, events)
    assert (result.returncode, result.stderr) == (0, "")
    assert str(tmp_path) in result.stdout
