"""A Python of tests/pythons behaves as a new one does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pythons import python_with

FACTS = """
import json, os, sys
print(json.dumps([__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("COLOUR"), sys.stdin.read()]))
sys.exit(3)
"""


def run(*words: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=folder, env=os.environ | environment, input="given", capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("words", [("train.py", "--epochs", "3"), ("-c", FACTS, "x"), ("-m", "package.part", "y")])
def test_a_program_is_run_as_by_a_new_python(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FACTS)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text(FACTS)
    forked, new = (
        run(python, *words, folder=tmp_path, COLOUR="green") for python in (python_with("decimal"), sys.executable)
    )
    assert (forked.returncode, json.loads(forked.stdout), forked.stderr) == (3, json.loads(new.stdout), new.stderr)


def test_a_module_counts_as_imported_when_the_program_imports_it(tmp_path: Path) -> None:
    """Whoever awaits an import, as the probe does, sees it in the program and in the order of a new Python."""
    (tmp_path / "sitecustomize.py").write_text(SEES_IMPORTS)
    program = "import sys\nprint('jax' in sys.modules)\nimport jax.numpy, optax\nprint(jax.numpy.__name__, seen)"
    forked, new = (
        run(python, "-c", program, folder=tmp_path, PYTHONPATH=str(tmp_path))
        for python in (python_with("jax", "optax"), sys.executable)
    )
    assert forked.stdout == new.stdout, forked.stderr
    assert forked.stdout == "False\njax.numpy ['jax', 'optax']\n"


SEES_IMPORTS = """
import builtins, sys
from trainfare.probe.import_hooks import after_import
builtins.seen = []
after_import(["jax", "optax"], lambda module: seen.append(module.__name__))
"""


SLEEPS = "import time\nprint('began', flush=True)\ntime.sleep(600)"


def test_a_signal_reaches_the_program() -> None:
    program = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [python_with("decimal"), "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as it:
        assert it.stdout is not None
        it.stdout.readline()
        it.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in it.communicate()[1]
    assert it.returncode == -signal.SIGINT


def test_a_program_ends_with_its_command() -> None:
    with subprocess.Popen([python_with("decimal"), "-c", SLEEPS], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.kill()
        assert command.stdout.read() == b"", "the output is open until the program has ended"
