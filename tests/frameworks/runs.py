"""Runs a program of tests/programs with and without the probe; each prints what it saw of itself."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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


@dataclass(frozen=True)
class Seen:
    measured: Measured
    profile: Profile
    own: dict[str, Any]
    """What the program printed of itself."""

    @property
    def notes(self) -> list[str]:
        return [event["text"] for event in self.measured.events if event["event"] == "note"]


def seen(*arguments: str, backend: str | None = None, iterations: int = 25) -> Seen:
    command = [f"KERAS_BACKEND={backend}"] if backend else []
    measured = measure(
        Program(command=("env", *command, sys.executable, *arguments), directory=str(PROGRAMS)),
        iterations=iterations,
        stall_seconds=120,
        trace_operations=True,
        on_progress=lambda _: None,
        on_output=None,
    )
    assert what_was_seen(measured.events).troubles == ()
    profile = profile_of(
        measured.events,
        id="p7k2",
        program=Program(command=("python",), directory="/"),
        host=Host(name="here"),
        measured_at=NOON,
        ending=measured.ending,
        started=measured.started,
    )
    return Seen(measured, profile, own_account(measured.log.text()))


def without_probe(*arguments: str, backend: str | None = None) -> dict[str, Any]:
    environment: Mapping[str, str] = os.environ | ({"KERAS_BACKEND": backend} if backend else {})
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=PROGRAMS, env=environment, capture_output=True, text=True, check=True)
    return own_account(done.stdout)


def own_account(output: str) -> dict[str, Any]:
    line = next((line for line in output.splitlines() if line.startswith("{")), "{}")
    account: dict[str, Any] = json.loads(line)
    return account


def assert_close(ours: Sequence[float], own: Sequence[float]) -> None:
    """One by one, they mostly agree within 3 % or 0.3 ms: on a busy machine a few are torn between two clocks."""
    off = median(a - b for a, b in zip(ours, own, strict=True))
    assert abs(off) < max(0.03 * median(own), 3e-4)


def within_epochs(found: Seen) -> tuple[list[float], list[float]]:
    """Iterations that are not the first of an epoch, by our clock and by that of the program, which has a list of ends
    for each epoch, the first being its start."""
    ours: list[float] = []
    own: list[float] = []
    at = 0
    for ends in found.own["ends"]:
        spans = [end - start for start, end in pairwise(ends)]
        ours += found.profile.iteration_seconds[at + 1 : at + len(spans)]
        own += spans[1:]
        at += len(spans)
    return ours, own[: len(ours)]
