"""The Markov chain of availability and the values of a slot."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spot_makers import HOUR, make_availability, make_training
from trainfare.estimator.spot.grid import FALLBACK, SECONDS, STATES, USD, SpotGrid, proportional_values
from trainfare.model.spot import AGE_BINS

rates = st.tuples(*(st.floats(0.01, 3),) * AGE_BINS)


@given(rates, rates)
def test_transitions_are_probabilities_and_leave_the_stationary_distribution_unchanged(
    lost: tuple[float, ...], back: tuple[float, ...]
) -> None:
    grid = SpotGrid.of(make_training(), make_availability(lost_per_hour=lost, return_per_hour=back), 100)
    assert grid.transition.min() >= 0
    assert grid.transition.sum(axis=0) == pytest.approx(1)
    assert grid.stationary.sum() == pytest.approx(1)
    assert grid.transition @ grid.stationary == pytest.approx(grid.stationary, abs=1e-6)


@given(st.floats(0.01, 3), st.floats(0.01, 3))
def test_constant_rates_lose_a_machine_exponentially(lost: float, back: float) -> None:
    availability = make_availability(lost_per_hour=(lost,) * AGE_BINS, return_per_hour=(back,) * AGE_BINS)
    grid = SpotGrid.of(make_training(), availability, 100)
    assert grid.stay.sum(axis=0) == pytest.approx(math.exp(-lost * grid.h / HOUR))
    assert grid.stationary[:AGE_BINS].sum() == pytest.approx(availability.share)


def test_on_demand_continues_at_its_price_and_without_risk() -> None:
    training = make_training()
    grid = SpotGrid.of(training, make_availability(), 100)
    per_second = training.on_demand_usd_per_hour / HOUR
    later = proportional_values(grid, per_second, 1.0, 0.0, states=STATES)
    now = grid.continue_on_demand(later)
    middle = len(grid.w) // 2
    assert now[USD, middle] == pytest.approx(per_second * grid.w[middle])
    assert now[SECONDS, middle] == pytest.approx(grid.w[middle])
    assert now[FALLBACK, middle] == pytest.approx(0)
