"""Confines a program that was uploaded: bubblewrap shows it its own folder, and of this machine only the system
and Python, read-only; it has no network, no other process and no variable of ours.

The command is started through `sandbox_start.py`, which knows the folders only when it runs.
"""

import shutil
import sys
from pathlib import Path

from trainfare.errors import UsageError

PROCESSES = 512
FILE_BYTES = 4 << 30
_START = Path(__file__).with_name("sandbox_start.py")


def has_sandbox() -> bool:
    """True if uploaded programs can be run here."""
    return shutil.which("bwrap") is not None and shutil.which("prlimit") is not None


def sandbox_prefix() -> tuple[str, ...]:
    """The words before a command that confine it. `UsageError` where bubblewrap is missing."""
    if not has_sandbox():
        raise UsageError(
            "Uploaded programs run only in a sandbox, and bubblewrap is not installed on this server. "
            "On Debian: sudo apt-get install bubblewrap",
            field="upload",
        )
    # -I: the variables of the program must not change how this script is run.
    return (sys.executable, "-I", str(_START), str(PROCESSES), str(FILE_BYTES), "--")
