"""Nothing that a profile started is left running."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path


def end_all(process: "subprocess.Popen[bytes]", mark: str, *, ask: signal.Signals, wait_seconds: float) -> None:
    """End the process, its group, and whatever left the group but still carries `mark` in its environment.

    They are first asked with a signal to end by themselves.
    """
    if process.poll() is None:
        _signal_group(process.pid, ask)
        _signal_group(process.pid, signal.SIGCONT)  # a shell that is held hears nothing else
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_seconds)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(5):  # one that is just forking may slip through a round
        strays = _carrying(mark)
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


def hold_shell(pid: int) -> bool:
    """Stop a shell from going on to the next command of its script; False if the process is none."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return False
    if name in _SHELLS:
        os.kill(pid, signal.SIGSTOP)
    return name in _SHELLS


def is_running(pid: int) -> bool:
    """One that has ended but that nobody has waited for is not running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc/self").exists()  # gone in between; where there is no /proc, as the signal said
    return state not in "ZX"


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _carrying(mark: str) -> list[int]:
    """The processes whose environment names `mark`; none where there is no /proc."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
    return found
