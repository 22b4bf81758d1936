"""Real programs under the probe, and without it: what it saw against what they say themselves."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.makers import NOON
from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.events import profile_of, what_was_seen
from trainfare.profiler.measure import Measured, measure

PROGRAMS = Path(__file__).parents[1] / "programs"
BIN = Path(sys.executable).parent
STALL_SECONDS = 240.0
"""Importing a framework on a busy machine takes its time."""


@dataclass(frozen=True)
class Seen:
    measured: Measured
    profile: Profile
    own: dict[str, Any]
    """What the program printed of itself."""


def run(command: Sequence[str], *, iterations: int, trace: bool = True, directory: Path = PROGRAMS) -> Measured:
    return measure(
        Program(command=tuple(command), directory=str(directory)),
        iterations=iterations,
        stall_seconds=STALL_SECONDS,
        trace_operations=trace,
        on_progress=lambda _: None,
        on_output=None,
    )


def seen(*arguments: str, iterations: int = 25, trace: bool = True, directory: Path = PROGRAMS) -> Seen:
    """A Python program of ours, profiled."""
    return seen_command([sys.executable, *arguments], iterations=iterations, trace=trace, directory=directory)


def seen_command(
    command: Sequence[str], *, iterations: int = 25, trace: bool = True, directory: Path = PROGRAMS
) -> Seen:
    measured = run(command, iterations=iterations, trace=trace, directory=directory)
    output = measured.log.text()
    assert what_was_seen(measured.events).troubles == (), output
    assert any(event["event"] == "iteration" for event in measured.events), output
    profile = profile_of(
        measured.events,
        id="p7k2",
        program=Program(command=("python",), directory="/"),
        host=Host(name="here"),
        measured_at=NOON,
        ending=measured.ending,
        started=measured.started,
    )
    return Seen(measured, profile, own_account(output))


def alone(*arguments: str, directory: Path = PROGRAMS) -> dict[str, Any]:
    """What the program says of itself when nobody watches."""
    command = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    return own_account(done.stdout)


def own_account(output: str) -> dict[str, Any]:
    line = next((line for line in output.splitlines() if line.startswith('{"')), "{}")
    account: dict[str, Any] = json.loads(line)
    return account


def assert_close(ours: Sequence[float], own: Sequence[float]) -> None:
    """One by one, they mostly agree within 3 % or 0.2 ms: on a busy machine a few are torn between two clocks."""
    assert ours
    assert own
    off = median(a - b for a, b in zip(ours, own, strict=False))
    assert abs(off) < max(0.03 * median(own), 2e-4)
