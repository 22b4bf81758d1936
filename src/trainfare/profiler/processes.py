"""Ends every process that a profiled program started."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

_KILL_SECONDS = 10.0
"""The longest wait for a killed process: one that waits for a disk, as when it swaps, ends only after that."""


def end_all(
    process: "subprocess.Popen[bytes]", marker: str, *, asks: Sequence[signal.Signals], wait_seconds: float
) -> None:
    """End the process, its group, and every process that left the group but has `marker` in its environment.

    The group first gets each of the signals `asks` and each time `wait_seconds` to end by itself; then it is killed.
    """
    for ask in asks:
        if process.poll() is None:
            _signal_group(process.pid, ask)
            _signal_group(process.pid, signal.SIGCONT)  # a paused shell handles no other signal
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(wait_seconds)
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)
    for _ in range(5):  # a process that is just forking may be missed in one round
        remaining = _processes_marked(marker)
        if not remaining:
            return
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")


def pause_shell(pid: int) -> bool:
    """Pause a shell, so that it does not go on to the next command of its script; False if the process is no shell."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return False
    if name in _SHELLS:
        os.kill(pid, signal.SIGSTOP)
    return name in _SHELLS


def is_running(pid: int) -> bool:
    """False also for a zombie, which has ended but was not waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc/self").exists()  # it has just ended; without /proc the signal decides
    return state not in "ZX"


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _processes_marked(marker: str) -> list[int]:
    """The processes whose environment contains `marker`; none if there is no /proc."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marker.encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
    return found
