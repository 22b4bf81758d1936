"""The command as a person or a script runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainfare.cli.profile import progress_line
from trainfare.profiler.measure import Progress

PROGRAMS = Path(__file__).parents[1] / "programs"
TRAINFARE = (sys.executable, "-m", "trainfare.cli.main", "profile")
PLAIN = (sys.executable, str(PROGRAMS / "plain.py"), "--sleep", "0")


def run(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [*TRAINFARE, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=cwd)


def test_card_goes_to_stdout_and_the_program_to_stderr() -> None:
    result = run("--iterations", "12", "--", *PLAIN)
    assert result.returncode == 0, result.stderr
    assert "batch 10" in result.stdout
    assert "11 iterations an epoch (107 samples)" in result.stdout
    assert '"iteration_seconds"' not in result.stdout
    assert '{"iteration_seconds"' in result.stderr
    assert "next: trainfare recommend p" in result.stderr


def test_json_is_all_that_stands_on_stdout_and_quiet_shows_no_output() -> None:
    result = run("--quiet", "--json", "-n", "5", "--no-operations", *PLAIN)
    assert result.returncode == 0, result.stderr
    record = json.loads(result.stdout)
    assert len(record["iteration_seconds"]) == 5
    assert record["operations"] == []
    assert '"iteration_seconds"' not in result.stderr


def test_ending_before_the_wanted_iterations_is_an_error_when_they_were_asked_for() -> None:
    result = run("-n", "30", *PLAIN, "--epochs", "1")
    assert result.returncode == 1
    assert "ended after 11 of the 30 iterations that were asked for" in result.stderr
    assert "batch 10" in result.stdout


def test_ending_before_the_usual_iterations_is_a_note() -> None:
    result = run(*PLAIN, "--epochs", "1")
    assert result.returncode == 0
    assert "it ended after 11 of 50 iterations" in result.stderr


def test_crash_shows_the_programs_own_traceback() -> None:
    result = run(*PLAIN, "--crash-at", "3")
    assert result.returncode == 1
    assert "RuntimeError: the data is spoilt" in result.stderr
    assert "failed after 2 iterations with exit code 1" in result.stderr
    assert "Traceback" not in result.stderr.partition("the data is spoilt")[2]


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    command = [*TRAINFARE, "--json", "-n", "100000", *PLAIN, "--epochs", "100000", "--tell", str(trained)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while not trained.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child = int(children.read_text().split()[0])
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(stdout)["ending"] == "interrupted"
    assert "interrupted after" in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_ctrl_c_before_anything_was_measured() -> None:
    with subprocess.Popen([*TRAINFARE, "sleep", "100"], stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 60
        while not children.read_text().split():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted before its first iteration; nothing was kept" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "there is no command to profile"),
        (("--",), 2, "there is no command to profile"),
        (("--iterations", "0", "--", "true"), 2, "must be a whole number of at least 2"),
        (("--iterations", "many", "--", "true"), 2, "--iterations"),
        (("--stall", "soon", "--", "true"), 2, "is not a duration"),
        (("--on", "p3", "--", "true"), 2, "there is no machine p3"),
        (("--", "no-such-command"), 2, "there is no command no-such-command"),
        (("--", "./script"), 2, "may not be executed"),
        (("--", "./broken"), 2, "could not be started"),
        (("--", sys.executable, "-I", "train.py"), 2, "Drop -I from the command"),
        (("--", sys.executable, "-E", "train.py"), 2, "Drop -E from the command"),
        (("--", sys.executable, "-S", "train.py"), 2, "Drop -S from the command"),
        (("--", sys.executable, "-c", "print(1)"), 1, "without one training iteration"),
        (("--", sys.executable, "nowhere.py"), 1, "failed before its first iteration with exit code 2"),
        (("--stall", "1s", "--", "sleep", "100"), 1, "showed no iteration for 1 s"),
        (("--store", "/dev/null/history.db", "--", "true"), 4, "history"),
    ],
)
def test_wrong_input_gets_a_paragraph(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("print(1)")
    (tmp_path / "broken").write_bytes(b"\x00\x01")
    (tmp_path / "broken").chmod(0o755)
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def make_progress(**changes: object) -> Progress:
    fields: dict[str, object] = {
        "iterations": 12,
        "wanted": 50,
        "seconds": 8.0,
        "iteration_seconds": 0.214,
        "framework": "torch",
        "validated": True,
        "loader": True,
        "stopping": False,
    }
    return Progress(**(fields | changes))  # type: ignore[arg-type]  # the test names its fields


def test_progress_says_what_is_still_unknown() -> None:
    assert progress_line(make_progress()) == "12 of 50 iterations · 214 ms each"
    assert progress_line(make_progress(validated=False)).endswith("not seen yet: validation")
    assert progress_line(make_progress(iterations=0)) == "waiting for the first iteration · 8 s"
    assert "enough" in progress_line(make_progress(stopping=True))
