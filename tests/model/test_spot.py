"""Availabilities and histories: the meaning of the rates, and their prior."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.model.spot import Availability, Outcome, ZoneHistory, age_bin, pool_histories


def constant(rate: float, back: float) -> Availability:
    return Availability(zone="a", lost_per_hour=(rate,) * 4, return_per_hour=(back,) * 4)


@given(st.floats(0.01, 10), st.floats(0.01, 10))
def test_a_constant_rate_has_its_inverse_as_mean(lost: float, back: float) -> None:
    found = constant(lost, back)
    assert found.stay_hours == pytest.approx(1 / lost)
    assert found.wait_hours == pytest.approx(1 / back)
    assert found.share == pytest.approx(back / (lost + back))


def test_a_machine_that_is_never_lost_stays_forever() -> None:
    found = constant(0.0, 1.0)
    assert math.isinf(found.stay_hours)
    assert found.share == 1.0


def test_the_loss_rate_of_several_nodes_is_the_sum_of_theirs() -> None:
    assert constant(0.2, 1.0).for_nodes(3).stay_hours == pytest.approx(constant(0.6, 1.0).stay_hours)


@pytest.mark.parametrize(("minutes", "number"), [(0, 0), (29, 0), (30, 1), (120, 2), (479, 2), (480, 3), (10_000, 3)])
def test_an_age_bin_begins_at_the_end_of_the_previous_one(minutes: float, number: int) -> None:
    assert age_bin(60 * minutes) == number


COUNTED = ZoneHistory(
    zone="a", losses=(100, 0, 10, 1), up_hours=(100.0, 0.0, 100.0, 10.0), returns=(100,) * 4, down_hours=(50.0,) * 4
)


def test_rates_are_events_over_hours() -> None:
    alone = COUNTED.availability()
    assert alone.lost_per_hour[0] == pytest.approx(1.0, rel=0.02)
    assert alone.return_per_hour[0] == pytest.approx(2.0, rel=0.05)
    assert COUNTED.lost_per_hour == pytest.approx(111 / 210)


def test_rates_of_rare_states_are_shrunk_towards_the_prior() -> None:
    found = COUNTED.availability(prior=constant(0.5, 1.0))
    assert found.lost_per_hour[0] == pytest.approx(1.0, rel=0.03)
    assert found.lost_per_hour[1] == pytest.approx(0.5)
    assert 0.1 < found.lost_per_hour[3] < 0.5


def test_histories_add_up() -> None:
    both = pool_histories([COUNTED, COUNTED], "both")
    assert both.hours == 2 * COUNTED.hours
    assert both.lost_per_hour == pytest.approx(COUNTED.lost_per_hour)


def test_invalid_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="4 rates"):
        Availability(zone="a", lost_per_hour=(1.0,), return_per_hour=(1.0,) * 4)
    with pytest.raises(ValueError, match="return_per_hour"):
        constant(1.0, 0.0)
    with pytest.raises(ValueError, match="probability"):
        Outcome(usd=1.0, seconds=1.0, late=1.2)
