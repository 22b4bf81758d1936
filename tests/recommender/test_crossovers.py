import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import WinningRange, winning_ranges

Line = tuple[int, int]
"""Dollars before the first epoch, and for each: whole numbers, so that sums are exact."""

CHEAPEST = Goal(kind="cheapest")


def estimates(lines: list[Line], epochs: int) -> list[Estimate]:
    return [
        make_estimate(
            candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name=f"m{i}"))),
            usd=Interval.exactly(fixed + each * epochs),
        )
        for i, (fixed, each) in enumerate(lines)
    ]


def walked(lines: list[Line]) -> tuple[WinningRange, ...]:
    return winning_ranges(estimates(lines, 1), estimates(lines, 2), CHEAPEST)


def cost(lines: list[Line], stretch: WinningRange, epochs: int) -> int:
    fixed, each = lines[int(stretch.estimate.candidate.offer.vm_type.name[1:])]
    return fixed + each * epochs


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 30)), min_size=1, max_size=8))
def test_at_every_number_of_epochs_the_range_names_the_cheapest(lines: list[Line]) -> None:
    """Compared with brute force."""
    found = walked(lines)
    assert found[0].first == 1
    assert found[-1].last is None
    for epochs in range(1, 400):
        (stretch,) = [s for s in found if s.first <= epochs and (s.last is None or epochs <= s.last)]
        assert cost(lines, stretch, epochs) == min(fixed + each * epochs for fixed, each in lines)


def test_a_slow_start_wins_only_with_enough_epochs() -> None:
    quick_to_start, quick_to_run = (0, 10), (95, 1)
    first, second = walked([quick_to_start, quick_to_run])
    assert (first.first, first.last, second.first, second.last) == (1, 10, 11, None)


def test_time_decides_for_the_fastest_goal() -> None:
    slow, fast = (make_estimate(seconds=Interval.exactly(s)) for s in (20.0, 10.0))
    twice = [make_estimate(seconds=Interval.exactly(s)) for s in (30.0, 19.0)]
    (stretch,) = winning_ranges([slow, fast], twice, Goal(kind="fastest"))
    assert stretch.estimate is fast


def test_a_single_machine_wins_at_any_number_of_epochs() -> None:
    assert walked([(5, 5)])[0].last is None


def test_estimates_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        winning_ranges(estimates([(1, 1)], 1), [], CHEAPEST)
