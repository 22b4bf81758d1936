"""The saving of a split plan and its uncertainty."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.recommender.split.test_search import make_machine
from trainfare.model.interval import Interval
from trainfare.recommender.split.saving import CostTerm, estimate_saving, saving_changes
from trainfare.recommender.split.search import LinearGoal, MigrationCost, find_splits


def term(group: str, value: float, factor: float) -> CostTerm:
    return CostTerm(error_group=group, amount=Interval.within_factor(value, factor))


def test_a_saving_smaller_than_its_uncertainty_is_none() -> None:
    single = term("fast", 10.0, 1.1)
    assert estimate_saving(single, [term("fast", 4.0, 1.1), term("cheap", 5.9, 1.1)], "usd") is None
    found = estimate_saving(single, [term("fast", 4.0, 1.1), term("cheap", 3.0, 1.1)], "usd")
    assert found is not None
    assert found.amount.value == pytest.approx(3.0)
    # $6 of the fast machine are replaced by $3 of the cheap one; each may be a tenth off.
    assert found.amount.low == pytest.approx(3.0 - math.hypot(6 - 6 / 1.1, 0.3), rel=1e-6)
    assert found.share == pytest.approx(0.3)


def test_errors_of_one_group_do_not_hide_a_saving() -> None:
    """The same GPU at two prices: twice as long is twice as long on both."""
    single, parts = term("gpu", 10.0, 2.0), [term("gpu", 4.0, 2.0), term("gpu", 5.0, 2.0)]
    found = estimate_saving(single, parts, "usd")
    assert found is not None
    assert (found.amount.low, found.amount.high) == pytest.approx((0.5, 2.0))


terms = st.tuples(st.floats(1, 100), st.floats(0.1, 100), st.floats(0.1, 100), st.floats(1, 3), st.floats(0, 10))


@given(terms)
def test_the_low_end_of_a_saving_is_positive(amounts: tuple[float, ...]) -> None:
    a, b, c, factor, change = amounts
    parts = [term("x", b, factor), term("y", c, factor)]
    found = estimate_saving(term("x", a, factor), parts, "usd", epoch_changes=(-change, change))
    assume(found is not None)
    assert found is not None
    assert found.amount.low > 0
    assert found.amount.value == pytest.approx(a - b - c)


@given(terms)
def test_there_is_a_saving_if_and_only_if_it_exceeds_its_uncertainty(amounts: tuple[float, ...]) -> None:
    a, b, c, factor, change = amounts
    parts = [term("x", b, factor), term("y", c, factor)]
    found = estimate_saving(term("x", a, factor), parts, "usd", epoch_changes=(-change, change))
    saved = a - b - c
    of_x = min(0.0, (a - b) * (1 / factor - 1), (a - b) * (factor - 1))
    down = math.hypot(of_x, c * (factor - 1), change)
    assume(abs(saved - down) > 1e-6)
    assert (found is not None) == (saved > down)


def test_a_training_that_may_end_before_the_migration_saves_less() -> None:
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    goal = LinearGoal(epochs=10, deadline_seconds=200)
    migration = MigrationCost(usd=1.0)
    split = next(s for s in find_splits(machines, lambda _i, _j: migration, goal) if s.first == 0)
    fewer, more = saving_changes(machines, 0, split, migration, goal, Interval(value=10, low=3, high=12))
    assert split.after == 5
    assert fewer == pytest.approx(0 - (5 * 8 - 1))  # it ends after three epochs, before the migration
    assert more == pytest.approx(2 * 8)
