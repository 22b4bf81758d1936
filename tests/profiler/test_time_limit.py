"""A time limit holds whatever the program does; what was measured before it is kept.

The bounds are generous: a limit that does not hold would wait for the hour that the programs sleep.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from tests.frameworks.runs import PROGRAMS
from trainfare.model.program import Program
from trainfare.profiler.measure import MeasuredRun, measure
from trainfare.profiler.processes import is_running
from trainfare.profiler.stopping import UntilSteady

LONGEST_SECONDS = 600
"""From the start of a measurement to its end, on a busy machine."""
NEVER = UntilSteady(tolerance=0.0, min_steady_iterations=10**9)


def run(*arguments: str, max_seconds: float | None = 1.5, trace: bool = False) -> MeasuredRun:
    started = time.monotonic()
    measured = measure(
        Program(command=(sys.executable, "ticks.py", *arguments), directory=str(PROGRAMS)),
        stopping_rule=NEVER,
        max_seconds=max_seconds,
        stall_seconds=3600,
        trace_operations=trace,
        on_progress=lambda _: None,
        on_output=None,
    )
    assert time.monotonic() - started < LONGEST_SECONDS
    return measured


def iterations(measured: MeasuredRun) -> list[int]:
    """The iterations of each process."""
    return list(Counter(event["pid"] for event in measured.events if event["event"] == "iteration").values())


def test_a_first_iteration_that_never_ends_is_ended() -> None:
    measured = run("--hang-at", "1")
    assert measured.ending == "time_limit"
    assert measured.startup is not None
    assert measured.startup.frameworks == ("torch",)


def test_iterations_before_the_one_that_never_ends_are_kept() -> None:
    measured = run("--hang-at", "4")
    assert (measured.ending, iterations(measured)) == ("time_limit", [3])
    assert measured.startup is None


def test_processes_that_ignore_every_request_are_killed(tmp_path: Path) -> None:
    measured = run("--hang-at", "2", "--stubborn", "--workers", "2", "--detached", str(tmp_path / "pid"))
    assert measured.ending == "time_limit"
    started = {event["pid"] for event in measured.events} | {int((tmp_path / "pid").read_text())}
    assert len(started) == 4
    assert not any(map(is_running, started))


def test_the_program_is_told_to_stop_shortly_before_the_limit() -> None:
    measured = run("--obedient", max_seconds=4)
    assert measured.ending == "time_limit"
    assert "stopped by itself" in measured.log.text()


def test_the_request_leaves_time_for_an_iteration_to_be_traced() -> None:
    measured = run("--obedient", "--seconds", "0.8", max_seconds=6, trace=True)
    last = max(event["end"] for event in measured.events if event["event"] == "iteration")
    assert last <= measured.started + 6 - 0.8
    assert "stopped by itself" in measured.log.text()


def test_a_limit_that_is_far_away_has_no_effect() -> None:
    started = time.monotonic()
    measured = measure(
        Program(command=(sys.executable, "ticks.py", "--obedient"), directory=str(PROGRAMS)),
        stopping_rule=UntilSteady(tolerance=1.0),
        max_seconds=3600,
        stall_seconds=60,
        trace_operations=False,
        on_progress=lambda _: None,
        on_output=None,
    )
    assert measured.ending == "enough"
    assert time.monotonic() - started < LONGEST_SECONDS
