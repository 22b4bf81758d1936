"""A Python that has imported a framework already: programs that it runs are forks of one process, and start in a tenth
of the time that the imports would take.

    python = python_with("torch")
    subprocess.run([python, "train.py", "--epochs", "3"])

The path is that of a command that behaves as `python SCRIPT`, `python -c CODE` and `python -m MODULE` do: it has the
directory, the environment and the files of its caller, runs the `sitecustomize` on PYTHONPATH, passes signals on and
ends as the program does. A framework counts as imported only when the program imports it, so the probe sees the same
order as in a Python of its own. What differs is the process: the program is no child of the command. Tests of
processes, of memory and of how a program is started use `sys.executable`.
"""

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from trainfare.probe import boot

STORE_MODULES = ("trainfare.store.open", "trainfare.store.sql", "alembic.command", "sqlalchemy.dialects.sqlite")
"""What a program imports late to open a store."""

_HERE = Path(__file__).parent
_OWNER = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
"""The workers of one run share their servers, which end with the process that started the workers."""
_FOLDER = Path("/tmp") / f"pythons-{_OWNER}"
"""Not under TMPDIR: the path of a socket may have 107 bytes only."""


def python_with(*modules: str, **environment: str) -> str:
    """The path of a Python that has imported these modules, with these variables in its environment meanwhile."""
    words = (*modules, *(f"{name}={value}" for name, value in sorted(environment.items())))
    folder = _FOLDER / hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    with (_FOLDER / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers(folder / "socket"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _start_server(folder, modules, environment)
    return str(folder / "python")


def remove_folder() -> None:
    """Called by the owner at its end: servers that were idle left their locks there."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(_FOLDER, ignore_errors=True)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def _start_server(folder: Path, modules: tuple[str, ...], environment: dict[str, str]) -> None:
    """Start a process that imports the modules and then forks for each client, and wait until it has."""
    client = folder / "python"
    text = (_HERE / "client.py").read_text()
    client.write_text(f"#!{sys.executable} -IS\nSOCKET = {str(folder / 'socket')!r}\n{text}")
    client.chmod(0o700)
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, _HERE / "server.py", folder / "socket", str(_OWNER), ",".join(boot.LISTENERS), *modules],
            env=outside | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    _processes.append(process)
    assert process.stdout is not None
    ready = process.stdout.readline()
    process.stdout.close()
    assert ready == b"ready\n", (folder / "errors").read_text()


_processes: list["subprocess.Popen[bytes]"] = []
"""Kept, because Python warns of a process that is forgotten while it runs."""
