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
    grid = SpotGrid.of(make_training(), [make_availability(lost_per_hour=lost, return_per_hour=back)], 100)
    (transition,), (stationary,) = grid.transition, grid.stationary
    assert transition.min() >= 0
    assert transition.sum(axis=0) == pytest.approx(1)
    assert stationary.sum() == pytest.approx(1)
    assert transition @ stationary == pytest.approx(stationary, abs=1e-6)


@given(st.floats(0.01, 3), st.floats(0.01, 3))
def test_constant_rates_lose_a_machine_exponentially(lost: float, back: float) -> None:
    availability = make_availability(lost_per_hour=(lost,) * AGE_BINS, return_per_hour=(back,) * AGE_BINS)
    grid = SpotGrid.of(make_training(), [availability], 100)
    assert grid.stay[0].sum(axis=0) == pytest.approx(math.exp(-lost * grid.h / HOUR))
    assert grid.stationary[0, :AGE_BINS].sum() == pytest.approx(availability.share)


def test_on_demand_continues_at_its_price_and_without_risk() -> None:
    training = make_training()
    grid = SpotGrid.of(training, [make_availability()], 100)
    per_second = training.on_demand_usd_per_hour / HOUR
    later = proportional_values(grid, per_second, [1.0], 0.0, states=STATES)
    _, now = grid.on_demand(later)
    middle = len(grid.w) // 2
    assert now[USD, 0, middle] == pytest.approx(per_second * grid.w[middle])
    assert now[SECONDS, 0, middle] == pytest.approx(grid.w[middle])
    assert now[FALLBACK, 0, middle] == pytest.approx(0)


def test_zones_that_are_computed_together_have_the_values_of_each_alone() -> None:
    training = make_training()
    zones = [make_availability(), make_availability(lost_per_hour=(2.0, 1.0, 0.5, 0.1))]
    together = SpotGrid.of(training, zones, 100)
    values = proportional_values(together, 0.001, [1.5, 1.5], 0.0, states=STATES)
    start, run = together.on_spot(values, values[..., :AGE_BINS])
    for number, zone in enumerate(zones):
        alone = SpotGrid.of(training, [zone], 100)
        value = proportional_values(alone, 0.001, [1.5], 0.0, states=STATES)
        begun, continued = alone.on_spot(value, value[..., :AGE_BINS])
        assert start[:, number] == pytest.approx(begun[:, 0])
        assert run[:, number] == pytest.approx(continued[:, 0])
        waiting = together.initial_values(together.wait(values))[:, number]
        assert waiting == pytest.approx(alone.initial_values(alone.wait(value))[:, 0])
