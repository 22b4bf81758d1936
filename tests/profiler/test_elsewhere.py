"""A measurement on another machine, from the events that were fetched from there. Nothing is started but a shell."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.makers import make_program
from trainfare.profiler.elsewhere import EVENTS_FILE, DistantMeasurement, probed_command
from trainfare.profiler.stopping import STEADY, StoppingRule, UntilEpochs, UntilStable


def lines(count: int, *, pid: int = 1, first: int = 1, seconds: float = 0.1, at: float = 1000.0) -> bytes:
    """The events of some iterations, as the probe writes them."""
    events = [{"event": "import", "pid": pid, "time": at, "name": "torch", "version": "2"}]
    events += [
        {
            "event": "iteration",
            "pid": pid,
            "time": at + n * seconds,
            "n": n,
            "start": at + (n - 1) * seconds,
            "end": at + n * seconds,
            "wait": 0.0,
            "batches": 0,
            "learning_rate": None,
        }
        for n in range(first, first + count)
    ]
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def measurement(rule: StoppingRule = STEADY, **changes: Any) -> DistantMeasurement:
    return DistantMeasurement(
        program=make_program(), iterations=None, stopping_rule=rule, trace_operations=False, **changes
    )


def ask(found: DistantMeasurement, seconds_left: float = 1e9) -> str | None:
    return found.stop_request(found.progress(1.0).profile, seconds_left=seconds_left)


def test_the_command_sets_where_events_go_and_becomes_the_program(tmp_path: Path) -> None:
    words = probed_command(
        ("sh", "-c", 'echo "$0 $TRAINFARE_PROBE_ITERATIONS$TRAINFARE_PROBE_BY_LOSS $TRAINFARE_PROBE_EVENTS"', "a b"),
        launch_variable="TRAINFARE_LAUNCH",
        iterations=None,
        stopping_rule=UntilStable(),
        trace_operations=True,
    )
    environment = os.environ | {"TRAINFARE_LAUNCH": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"a b 01 {tmp_path}/{EVENTS_FILE}\n"
    assert (tmp_path / EVENTS_FILE).read_bytes() == b""


def test_lines_that_are_cut_anywhere_are_put_together() -> None:
    text, found = lines(30), measurement()
    for at in range(0, len(text), 7):
        found.add(text[at : at + 7])
    whole = measurement()
    whole.add(text)
    assert found.events == whole.events
    assert found.progress(5.0).iterations == 30
    assert found.progress(5.0).framework == "torch"


def test_the_stop_is_requested_once_when_the_time_of_an_iteration_is_known() -> None:
    found = measurement()
    found.add(lines(5))
    assert ask(found) is None
    found.add(lines(20, first=6))
    assert ask(found) == ""
    assert ask(found) is None
    assert found.progress(3.0).stopping


def test_processes_that_train_together_stop_after_the_same_iteration() -> None:
    found = measurement()
    found.add(lines(30, pid=1) + lines(31, pid=2))
    assert ask(found) == "72"  # four seconds of 0.1 s later, and one more


def test_a_time_limit_that_is_near_requests_the_stop() -> None:
    found = measurement(UntilEpochs(epochs=2))
    found.add(lines(5))
    assert ask(found, seconds_left=20.0) is None
    assert not found.time_limited
    assert ask(found, seconds_left=4.05) == ""
    assert found.time_limited


def test_a_number_of_iterations_is_counted_by_the_probe_itself() -> None:
    found = DistantMeasurement(program=make_program(), iterations=30, stopping_rule=STEADY, trace_operations=False)
    found.add(lines(30))
    assert ask(found, seconds_left=0.0) is None


def test_the_start_is_what_the_machine_says_unless_its_clock_was_set() -> None:
    found = measurement()
    found.add(lines(3, at=1000.0))
    assert found.started(990.0) == 990.0
    assert found.started(None) == 1000.0
    assert found.started(1500.0) == 1000.0  # after the first event
    assert found.started(-5000.0) == 1000.0
