"""The command in a shell: exit codes, streams, no traceback, quick help."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.commands import succeed
from trainfare.cli.main import COMMANDS, TOGETHER

TRAINFARE = str(Path(sys.executable).with_name("trainfare"))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRAINFARE, *arguments], capture_output=True, text=True, env=os.environ | environment, timeout=600, check=False
    )


def test_version_and_help_go_to_stdout() -> None:
    version = run("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("trainfare 0.")
    helped = run("--help")
    assert helped.returncode == 0
    assert len(helped.stdout.splitlines()) <= 24, "help fits a screen"
    for command in ("profile", "recommend", "schedule", "catalog", "settings"):
        assert f"  {command} " in helped.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_fits_a_screen(command: str) -> None:
    lines = succeed(command, "--help").stdout.splitlines()
    assert 5 < len(lines) <= 40
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("group", ["schedule", "catalog", "profiles", "plans"])
def test_the_help_of_a_group_names_no_option_of_the_main_command(group: str) -> None:
    assert "--version" not in succeed(group, "--help").stdout


def test_an_error_is_a_paragraph_on_stderr_and_an_exit_code() -> None:
    result = run("recommend")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("trainfare: there is no profile yet.")
    assert "`trainfare profile -- python train.py`" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_help_and_version_import_no_command(words: str) -> None:
    """Only the command that runs is imported: the help of sixteen commands must not cost sixteen imports."""
    script = (
        "import sys; sys.argv = ['trainfare', sys.argv[1]]\n"
        "from trainfare.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('trainfare')], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", script, words], capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(result.stderr)) <= {
        "trainfare",
        "trainfare._public",
        "trainfare.cli",
        "trainfare.cli.arguments",
        "trainfare.cli.main",
        "trainfare.errors",
    }


def test_every_command_is_found_and_named_as_in_the_help() -> None:
    shown = run("--help").stdout
    together = {name: (", ".join(names), help_line) for names, help_line in TOGETHER.items() for name in names}
    for name, (target, help_line) in COMMANDS.items():
        module, _, attribute = target.partition(":")
        assert hasattr(import_module(module), attribute)
        names, line = together.get(name, (name, help_line))
        assert f"  {names} " in shown
        assert line in shown


def test_a_mistyped_command_is_named_with_the_nearest() -> None:
    result = run("recomend")
    assert result.returncode == 2
    assert "recommend" in result.stderr


def test_a_store_that_cannot_be_reached_is_exit_code_4() -> None:
    result = run("profile", "--", "true", TRAINFARE_STORE="/proc/history.db")
    assert result.returncode == 4
    assert "/proc/history.db" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_store_in_a_folder_that_does_not_exist_is_exit_code_2() -> None:
    result = run("recommend", TRAINFARE_STORE="/tmp/nowhere/at/all/history.db")
    assert result.returncode == 2
    assert "there is no folder /tmp/nowhere/at/all" in result.stderr
    assert not Path("/tmp/nowhere").exists()


def test_there_are_no_colours_with_no_color_or_in_a_pipe() -> None:
    for environment in ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, {}):
        result = run("catalog", "gpus", **environment)
        assert result.returncode == 0
        assert "\x1b[3" not in result.stdout


def test_a_closed_pipe_is_not_an_error() -> None:
    pipeline = f"{TRAINFARE} catalog list --all --json | head -1"
    result = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=False)
    assert result.stderr == ""


def test_completion_is_offered_for_the_shell() -> None:
    result = run("--show-completion", "bash", SHELL="/bin/bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_TRAINFARE_COMPLETE" in result.stdout
