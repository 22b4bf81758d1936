"""The command as a shell sees it: exit codes, streams, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINFARE = str(Path(sys.executable).with_name("trainfare"))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRAINFARE, *arguments], capture_output=True, text=True, env=os.environ | environment, timeout=60, check=False
    )


def test_version_and_help_go_to_stdout() -> None:
    version = run("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("trainfare 0.")
    helped = run("--help")
    assert helped.returncode == 0
    assert len(helped.stdout.splitlines()) <= 24, "help fits a screen"
    for command in ("profile", "recommend", "schedule", "profiles", "catalog", "settings"):
        assert f"  {command} " in helped.stdout


@pytest.mark.parametrize("command", ["profile", "recommend", "profiles", "catalog", "settings"])
def test_the_help_of_each_command_fits_a_screen(command: str) -> None:
    helped = run(command, "--help")
    assert helped.returncode == 0
    assert len(helped.stdout.splitlines()) <= 40
    assert max(map(len, helped.stdout.splitlines())) <= 80


@pytest.mark.parametrize("group", ["schedule", "catalog", "profiles", "plans"])
def test_a_group_promises_no_option_that_it_has_not(group: str) -> None:
    assert "--version" not in run(group, "--help").stdout


def test_an_error_is_a_paragraph_on_stderr_and_an_exit_code() -> None:
    result = run("recommend")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("trainfare: there is no profile yet.")
    assert "Traceback" not in result.stderr


def test_a_mistyped_command_is_named_with_the_nearest() -> None:
    result = run("recomend")
    assert result.returncode == 2
    assert "recommend" in result.stderr


def test_a_store_that_cannot_be_reached_is_exit_code_4() -> None:
    result = run("recommend", TRAINFARE_STORE="/proc/nowhere/history.db")
    assert result.returncode == 4
    assert "/proc/nowhere" in result.stderr
    assert "Traceback" not in result.stderr


def test_no_color_means_no_escape_codes_and_a_pipe_has_none_either() -> None:
    for environment in ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, {}):
        result = run("catalog", "gpus", **environment)
        assert result.returncode == 0
        assert "\x1b[3" not in result.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    pipeline = f"{TRAINFARE} catalog list --all --json | head -1"
    result = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_completion_is_offered_for_the_shell() -> None:
    result = run("--show-completion", "bash", SHELL="/bin/bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_TRAINFARE_COMPLETE" in result.stdout
