"""`trainfare profile` on real programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.makers import make_profile
from tests.model.test_startup import make_memory, make_model
from tests.pythons import STORE_MODULES, python_with
from trainfare.cli import main
from trainfare.cli.cards.profile_screen import Screen, file_lines, progress_line
from trainfare.cli.commands.profile import stability_line
from trainfare.model.profile import Epoch
from trainfare.model.stability import Stability
from trainfare.model.startup import MemoryReading, StartUp
from trainfare.profiler.measure import MeasurementProgress
from trainfare.profiler.stopping import STEADY, UntilEpochs, UntilStable
from trainfare.profiler.workspace import Changes, Workspace

pytestmark = pytest.mark.heavy

PROGRAMS = Path(__file__).parents[1] / "programs"
TRAINFARE = (sys.executable, "-m", "trainfare.cli.main", "profile")
PLAIN = (sys.executable, str(PROGRAMS / "plain.py"), "--sleep", "0")
LONGEST_SECONDS = 600
"""Of one command, on a busy machine."""
COMMAND_MODULES = ("trainfare.cli.commands.profile", "trainfare.app.profiling.profile", *STORE_MODULES)


def torch_program(name: str, *options: str) -> tuple[str, ...]:
    return (python_with("torch"), str(PROGRAMS / name), *options)


def plain() -> tuple[str, ...]:
    """The same as PLAIN, which starts sooner."""
    return torch_program("plain.py", "--sleep", "0")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program runs in a copy of the current folder, and that of the tests has thousands of files."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [python_with(*COMMAND_MODULES), *TRAINFARE[1:], *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=LONGEST_SECONDS, cwd=cwd)


def test_card_goes_to_stdout_and_the_program_to_stderr() -> None:
    command = [*TRAINFARE, "--iterations", "12", "--", *PLAIN]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LONGEST_SECONDS)
    assert result.returncode == 0, result.stderr
    assert "batch 10" in result.stdout
    assert "11 iterations per epoch (107 samples)" in result.stdout
    assert '"iteration_seconds"' not in result.stdout
    assert '{"iteration_seconds"' in result.stderr
    assert "next: trainfare recommend p" in result.stderr


def test_stdout_has_only_the_json_and_quiet_shows_no_output() -> None:
    result = run("--quiet", "--json", "-n", "5", "--no-operations", *plain())
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert len(record["iteration_seconds"]) == 5
    assert record["operations"] == []
    assert '"iteration_seconds"' not in result.stderr


def test_a_program_that_ends_before_the_requested_iterations_is_an_error() -> None:
    result = run("-n", "30", *plain(), "--epochs", "1")
    assert result.returncode == 1
    assert "ended after 11 of the 30 iterations requested" in result.stderr
    assert "batch 10" in result.stdout


def test_a_program_that_ends_by_itself_is_a_note() -> None:
    result = run(*plain(), "--epochs", "1")
    assert result.returncode == 0
    assert "it ended by itself after 10 iterations" in result.stderr  # and one that was traced
    assert "operations traced" in result.stdout


def test_a_program_that_ends_before_the_requested_epochs_is_an_error() -> None:
    result = run("--epochs", "5", *plain(), "--epochs", "2")
    assert result.returncode == 1
    assert "ended after 2 of the 5 epochs requested" in result.stderr
    assert "epochs, with validation: " in result.stderr


def test_until_stable_prints_the_metric_and_the_epoch() -> None:
    command = ("--until-stable", "--patience", "3", "--json", *torch_program("settles.py"))
    result = run(*command)
    assert result.returncode == 0, result.stderr
    assert "training loss was best at epoch 12 (0.5) · stable from epoch 12 (iteration 48) on" in result.stderr
    record = json.loads(result.stdout)
    assert record["stability"]["metric"] == "training loss"
    assert record["curve"][0]["loss"] == pytest.approx(1.6)


SIZES = ("--batch-sizes", "8,512,16", "--batch-flag", "--batch-size {}", "-n", "4", "--no-operations")


def test_batch_sizes_make_a_table_and_a_failure_is_an_exit_code() -> None:
    result = run(*SIZES, *torch_program("batches.py", "--batch-size", "2"))
    assert result.returncode == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ["batch", "8", "512", "16"]
    assert lines[2][1] == "failed"
    assert "batch size 512: " in result.stderr
    assert "CUDA out of memory" in result.stderr
    assert f"next: trainfare recommend {lines[1][1]} {lines[3][1]} --epochs 100" in result.stderr


def test_batch_sizes_as_json_are_a_list() -> None:
    result = run("--quiet", "--json", *SIZES, *torch_program("batches.py", "--batch-size", "2"))
    assert result.returncode == 1
    trials = json.loads(result.stdout)
    assert [(trial["batch_size"], trial["failure"] is None) for trial in trials] == [
        (8, True),
        (512, False),
        (16, True),
    ]
    assert [trial["profile"] and trial["profile"]["batch_size"] for trial in trials] == [8, None, 16]


def test_files_are_deleted_with_the_copy_unless_run_in_place(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "plain.py", tmp_path / "train.py")
    shutil.copy(PROGRAMS / "without_compiler.py", tmp_path)
    program = (python_with("torch"), "train.py", "--sleep", "0", "--touch", "out.txt")
    command = ("-n", "5", "--no-operations", "--", *program)
    result = run(*command, cwd=tmp_path)
    assert "the program ran in a copy of your folder and wrote nothing there" in result.stderr
    result = run("--epochs", "1", *command[2:], cwd=tmp_path)
    assert "1 file (0B) that it wrote was deleted" in result.stderr
    assert not (tmp_path / "out.txt").exists()
    result = run("--in-place", "--epochs", "1", *command[2:], cwd=tmp_path)
    assert "copy" not in result.stderr
    assert (tmp_path / "out.txt").exists()


def test_a_crash_shows_the_traceback_of_the_program() -> None:
    result = run(*plain(), "--crash-at", "3")
    assert result.returncode == 1
    assert "RuntimeError: the data is corrupt" in result.stderr
    assert "failed after 2 iterations with exit code 1" in result.stderr
    assert "Traceback" not in result.stderr.partition("the data is corrupt")[2]


def test_ctrl_c_stores_the_measured_iterations(tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    command = [*TRAINFARE, "--json", "-n", "100000", *PLAIN[:2], "--epochs", "100000", "--touch", str(trained)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + LONGEST_SECONDS
        while not trained.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child = int(children.read_text().split()[0])
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == 130
    assert json.loads(stdout)["ending"] == "interrupted"
    assert "interrupted after" in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_ctrl_c_before_anything_was_measured() -> None:
    with subprocess.Popen([*TRAINFARE, "sleep", "100"], stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + LONGEST_SECONDS
        while not children.read_text().split():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == 130
    assert "interrupted before its first iteration" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "there is no command to profile"),
        (("--",), 2, "there is no command to profile"),
        (("--iterations", "0", "--", "true"), 2, "--iterations: "),
        (("--iterations", "many", "--", "true"), 2, "--iterations"),
        (("--stall", "soon", "--", "true"), 2, "--stall: 'soon' is not a duration"),
        (("--on", "p3", "--", "true"), 2, "there is no machine p3"),
        (("--", "no-such-command"), 2, "there is no command no-such-command"),
        (("--", "./script"), 2, "./script"),
        (("--", "./broken"), 2, "./broken"),
        (("--", sys.executable, "-I", "train.py"), 2, "-I"),
        (("--", sys.executable, "-E", "train.py"), 2, "-E"),
        (("--", sys.executable, "-S", "train.py"), 2, "-S"),
        (("--", sys.executable, "-c", "print(1)"), 1, "iteration"),
        (("--", sys.executable, "nowhere.py"), 1, "failed before its first iteration with exit code 2"),
        (("--stall", "1s", "--", "sleep", "100"), 1, "1 s"),
        (("--store", "/dev/null/history.db", "--", "true"), 4, "history"),
        (("--epochs", "2", "--iterations", "5", "--", "true"), 2, "Give only one of them"),
        (("--epochs", "2", "--until-stable", "--", "true"), 2, "--until-stable: "),
        (("--epochs", "0", "--", "true"), 2, "--epochs: must be an integer of at least 1"),
        (("--epochs", "two", "--", "true"), 2, "--epochs"),
        (("--patience", "3", "--", "true"), 2, "--patience: "),
        (("--until-stable", "--patience", "0", "--", "true"), 2, "--patience: must be an integer of at least 1"),
        (("--max-time", "soon", "--", "true"), 2, "--max-time: 'soon' is not a duration"),
        (("--max-time", "1min", "-n", "5", "--", "true"), 2, "--max-time: "),
        (("--batch-sizes", "8,abc", "--batch-flag", "-b {}", "--", "true"), 2, "--batch-sizes: takes whole numbers"),
        (("--batch-sizes", "0,8", "--batch-flag", "-b {}", "--", "true"), 2, "whole numbers of at least 1"),
        (("--batch-sizes", "", "--batch-flag", "-b {}", "--", "true"), 2, "--batch-sizes: takes whole numbers"),
        (("--batch-sizes", "8", "--", "true"), 2, "`--batch-flag '--batch-size {}'`"),
        (
            ("--batch-sizes", "8", "--batch-flag", "-b", "--", "true"),
            2,
            "--batch-flag: '-b' must be an option with one {}",
        ),
        (("--batch-sizes", "8", "--batch-flag", "-b {}", "--"), 2, "there is no command to profile"),
        (("--batch-flag", "-b {}", "--", "true"), 2, "`--batch-sizes 64,128`"),
        (("--repeat", "0", "--", "true"), 2, "--repeat: must be an integer of at least 1"),
        (("--in-place", "--keep-files", "--", "true"), 2, "--keep-files: "),
    ],
)
def test_a_wrong_argument_is_explained(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "script").write_text("print(1)")
    (tmp_path / "broken").write_bytes(b"\x00\x01")
    (tmp_path / "broken").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["trainfare", "profile", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.run()
    stdout, stderr = capfd.readouterr()
    assert ended.value.code == code, stderr
    assert message in stderr
    assert "Traceback" not in stderr
    assert stdout == ""


def test_a_folder_that_was_removed_is_an_error(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {' '.join(TRAINFARE)} -- true"
    result = subprocess.run(
        ["bash", "-c", script], check=False, capture_output=True, text=True, timeout=LONGEST_SECONDS
    )
    assert result.returncode == 2, result.stderr
    assert "the current directory does not exist" in result.stderr
    assert "Traceback" not in result.stderr


def make_progress(count: int = 12, **changes: object) -> MeasurementProgress:
    seen = make_profile(
        iteration_seconds=(1.0, *[0.214] * (count - 1)),
        **{"loss": (), **changes.pop("facts", {})},  # type: ignore[dict-item] # fields by name, of several types
    )
    fields: dict[str, object] = {
        "profile": seen,
        "target_iterations": 50,
        "stopping_rule": STEADY,
        "seconds": 8.0,
        "framework": "torch",
        "stopping": False,
    }
    return MeasurementProgress(**(fields | changes))  # type: ignore[arg-type] # the test names its fields


def test_progress_names_what_is_still_unknown() -> None:
    assert progress_line(make_progress()) == "12 of 50 iterations · 214 ms ± 0%"
    assert progress_line(make_progress(target_iterations=None)) == "12 iterations · 214 ms ± 0% (2% needed)"
    unknown = progress_line(make_progress(facts={"validation_seconds": (), "micro_batch_size": None}))
    assert unknown.endswith("not measured yet: batch size, validation")
    assert progress_line(make_progress(profile=None)) == "waiting for the first iteration · 8 s"
    assert progress_line(make_progress(profile=None, framework=None)) == "starting · 8 s"
    assert "enough" in progress_line(make_progress(stopping=True))


def waiting(seconds: float, memory: MemoryReading) -> MeasurementProgress:
    model = make_model()
    startup = StartUp(seconds=seconds, frameworks=("torch",), model=model, memory=memory)
    return make_progress(profile=None, seconds=seconds, startup=startup)


def test_a_wait_for_the_first_iteration_is_explained_within_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=False)
    plenty = make_memory(total=64, available=40)
    for seconds in (5, 29, 31, 60, 119, 121):
        screen.progress(waiting(seconds, plenty))
    shown = capsys.readouterr().err
    assert shown.count("No iteration after") == 2
    assert "No iteration after 31 s. It has made 1.07G parameters, which need weights 4 GiB + gradients 4 GiB" in shown
    assert "so memory is not short" in shown


def test_a_lack_of_memory_is_said_sooner_and_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=False)
    screen.progress(waiting(9, make_memory(total=64, available=8)))
    assert capsys.readouterr().err == ""
    screen.progress(waiting(11, make_memory(total=64, available=8)))
    assert "It will swap or be killed. Profile it with a smaller model or batch" in capsys.readouterr().err


def test_progress_of_epochs() -> None:
    curve = (Epoch(number=1, seconds=2.0, loss=3.0), Epoch(number=2, seconds=2.0, loss=2.5))
    epochs = make_progress(target_iterations=None, stopping_rule=UntilEpochs(epochs=3), facts={"curve": curve})
    assert progress_line(epochs).startswith("2 of 3 epochs · 12 iterations · 214 ms")
    stable = make_progress(target_iterations=None, stopping_rule=UntilStable(), facts={"curve": curve})
    assert progress_line(stable).startswith("epoch 2 · training loss 2.5, best 2.5 at epoch 2 · 214 ms")
    nothing = make_progress(target_iterations=None, stopping_rule=UntilStable(), facts={"iterations_per_epoch": None})
    assert progress_line(nothing).endswith("not measured yet: the length of an epoch")


def test_the_files_of_the_program_are_described() -> None:
    place = Workspace(directory=Path("/tmp/x/home/ada"), is_copy=True)
    assert file_lines(place) == ["the program ran in a copy of your folder and wrote nothing there"]
    place.changes = Changes(written=("a", "b"), written_bytes=12_000_000, linked_changed=("data.bin",))
    deleted, overwrote = file_lines(place)
    assert deleted == (
        "the program ran in a copy of your folder; 2 files (12MB) that it wrote were deleted (--keep-files keeps them)"
    )
    assert overwrote == "it overwrote files that are too large to copy: data.bin"
    place.saved = True
    assert file_lines(place)[0].endswith("saved with 2 files (12MB) that it wrote: /tmp/x/home/ada")


def test_a_training_that_may_still_improve_is_not_called_stable() -> None:
    known = Stability(
        metric="val_loss",
        last=0.3,
        best=0.25,
        best_epoch=4,
        patience_exhausted=False,
        stable_from_epoch=3,
        stable_from_iteration=None,
    )
    assert stability_line(known) == (
        "val_loss was best at epoch 4 (0.25) · stable from epoch 3 on, but it may still improve"
    )
