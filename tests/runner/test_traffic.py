"""The traffic of each node, from the readings of its meter and the iterations that were counted."""

from datetime import timedelta
from typing import Any

import pytest

from tests.makers import NOON
from trainfare.model.run import Observation, ObservationKind
from trainfare.runner.seen import summarise
from trainfare.runner.traffic import traffic_of


def entry(node: int, number: int, kind: ObservationKind, **values: Any) -> Observation:
    at = NOON + timedelta(seconds=number)
    return Observation(run_id="r1", attempt=1, node=node, number=number, at=at, kind=kind, values=values)


def test_what_was_sent_before_the_program_started_does_not_count() -> None:
    seen = summarise(
        [
            entry(1, 1, "meter", sent_bytes=100, received_bytes=7_000_000),
            entry(1, 2, "meter", sent_bytes=100, received_bytes=9_000_000),
            entry(1, 3, "program", state="started"),
            entry(1, 4, "iterations", first=1, count=5, seconds=[0.2, 0.3]),
            entry(1, 5, "meter", sent_bytes=1_000_100, received_bytes=11_000_000),
        ]
    )
    (one,) = traffic_of(seen, ())
    assert (one.node, one.host, one.sent_bytes, one.received_bytes, one.iterations) == (1, None, 1e6, 2e6, 5)
    assert one.seconds == pytest.approx(3 * 0.2 + 2 * 0.3), "means of groups of three, the last one of two"
    assert one.sent_mbps == pytest.approx(8 / 1.2)
    assert one.mbps == one.received_mbps == pytest.approx(16 / 1.2)


def test_without_iterations_the_rate_is_that_of_the_whole_program() -> None:
    seen = summarise(
        [
            entry(0, 1, "meter", sent_bytes=0, received_bytes=0),
            entry(0, 2, "program", state="started"),
            entry(0, 9, "meter", sent_bytes=1_000_000, received_bytes=0),
        ]
    )
    (one,) = traffic_of(seen, ())
    assert (one.seconds, one.sent_mbps) == (8.0, 1.0)


def test_a_node_whose_program_has_not_started_has_no_traffic() -> None:
    assert traffic_of(summarise([entry(0, 1, "meter", sent_bytes=1, received_bytes=1)]), ()) == ()
