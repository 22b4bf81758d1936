"""The keeper: the process of a Slurm job on one of its nodes, which starts the agent there and ends when it has ended.

    python3 keeper.py             in a job: its folder is that of the node, by SLURM_NODEID, next to this file

A job is launched before its program is sent, and may start while no one is there. Files of the folder, which the login
host and all nodes share:

    begin       start the agent now                        written to ask for it
    up          this node runs; the path of a pipe on it   written by the keeper
    lease       as the agent knows it: one that was written while the job waited counts from the start of the job

Secrets come through the pipe, which is on the disk of no one: whoever may start a process in the job writes them there.
One file, Python 3.8 or newer, no packages.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POLL_SECONDS = 0.2
IDLE_SECONDS = 1800.0
"""A job to which no one sends a program ends after so long: its nodes cost."""
STARTS = 3


def main() -> None:
    home = Path(__file__).resolve().parent
    folder = home / os.environ.get("SLURM_NODEID", "0")
    if not folder.is_dir():
        return  # the launch was ended while the job waited
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: the agent becomes a child of this process
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    shift_lease(folder / "lease", home / "until")
    place = Path(tempfile.mkdtemp(prefix="trainfare-"))
    try:
        os.mkfifo(place / "pipe", 0o600)
        pipe = os.open(place / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        write_file(folder / "up", str(place / "pipe"))
        secrets = wait_for_start(folder, pipe)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if secrets is None:
        sys.exit("No one sent a program to this job.")
    signal.signal(signal.SIGTERM, pass_on)
    for _ in range(STARTS):  # an agent that was killed is started again to record that
        subprocess.run((sys.executable, "-I", "agent.py", "start"), cwd=str(folder), input=secrets, check=False)
        wait_for_children()
        if (folder / "results.json").exists() or not folder.is_dir():
            return
    sys.exit("The agent has failed.")


def pass_on(number: int, _frame: object) -> None:
    """Slurm asks all processes of a job to end, or only this one."""
    for pid in children():
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def shift_lease(lease: Path, until: Path) -> None:
    """Let a lease that was written while the job waited begin now; it ends by `until`, if that is given."""
    try:
        ends, written = float(lease.read_text()), lease.stat().st_mtime
    except (OSError, ValueError):
        return
    ends += max(0.0, time.time() - written)
    with contextlib.suppress(OSError, ValueError):
        ends = min(ends, float(until.read_text()))
    write_file(lease, str(round(ends)))


def wait_for_start(folder: Path, pipe: int) -> bytes | None:
    """The secrets, once the agent is to be started; None if no one asks for it."""
    given, give_up = b"", time.monotonic() + IDLE_SECONDS
    while time.monotonic() < give_up:
        with contextlib.suppress(BlockingIOError):
            given += os.read(pipe, 1 << 20)
        if given.endswith(b"\n"):
            return given
        try:
            # A list is fresh on a network disk, where a name that is missing is remembered.
            names = {path.name for path in folder.iterdir()}
        except OSError:
            return None
        if "begin" in names:
            return b"{}\n"
        time.sleep(POLL_SECONDS)
    return None


def wait_for_children() -> None:
    """Wait until every process that the agent started has ended."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def write_file(path: Path, text: str) -> None:
    """Write a file in one step."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


if __name__ == "__main__":
    main()
