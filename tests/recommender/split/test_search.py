"""The search for splits over two machines, checked against brute force over every pair and every split."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_vm_type
from trainfare.model.interval import Interval, bound_exponent
from trainfare.model.plan import Goal
from trainfare.model.split import EarlyTarget
from trainfare.recommender.choose import IdealPoint
from trainfare.recommender.split.search import (
    EpochLine,
    LinearGoal,
    MachineCost,
    MachinePair,
    MigrationCost,
    best_single_machine,
    find_splits,
    linear_goal,
    prefer_faster_first,
)

FREE = MigrationCost()


def free(_i: int, _j: int) -> MigrationCost:
    return FREE


def make_machine(
    name: str,
    seconds: float,
    usd: float,
    *,
    start: float = 0.0,
    start_usd: float = 0.0,
    factor: float = 1.0,
    batch_size: int = 64,
) -> MachineCost:
    """Constant time and cost per epoch; the upper bounds are `factor` times as much."""
    line, cost = EpochLine(start=start, per_epoch=seconds), EpochLine(start=start_usd, per_epoch=usd)
    upper, upper_cost = (EpochLine(start=x.start * factor, per_epoch=x.per_epoch * factor) for x in (line, cost))
    return MachineCost(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name=name)), batch_size=batch_size),
        seconds=line,
        usd=cost,
        high_seconds=upper,
        high_usd=upper_cost,
        last_high_seconds=upper,
        last_high_usd=upper_cost,
    )


amounts = st.floats(0.01, 100.0)
machine_lists = st.lists(
    st.builds(
        make_machine,
        st.sampled_from("abcdef"),
        amounts,
        amounts,
        start=st.floats(0, 100),
        start_usd=st.floats(0, 100),
        factor=st.floats(1, 2),
    ),
    min_size=2,
    max_size=4,
)
migrations = st.builds(
    lambda seconds, usd, factor: MigrationCost(
        seconds=seconds, usd=usd, high_seconds=seconds * factor, high_usd=usd * factor
    ),
    st.floats(0, 50),
    st.floats(0, 50),
    st.floats(1, 3),
)
weights = st.sampled_from([(0.0, 1.0), (1.0, 0.0), (0.3, 0.7)])
exponents = st.sampled_from([0.0, bound_exponent(0.9, 0.8), bound_exponent(0.9, 0.9), 1.0])


def by_brute_force(machines: list[MachineCost], cost: Callable[[int, int], MigrationCost], goal: LinearGoal) -> float:
    """The least score of all pairs and all splits within the limits."""
    best = math.inf
    for i, first in enumerate(machines):
        for j, second in enumerate(machines):
            if i == j:
                continue
            pair = MachinePair(first=first, second=second, migration=cost(i, j), goal=goal)
            for k in range(goal.checkpoint_every, goal.epochs, goal.checkpoint_every):
                if (
                    pair.upper_seconds(k) <= goal.deadline_seconds
                    and pair.upper_usd(k) <= goal.budget_usd
                    and pair.upper_early_seconds(k) <= goal.early_deadline_seconds
                    and pair.early_seconds(k) <= goal.early_cap_seconds * (1 + 1e-9)
                ):
                    best = min(best, pair.score(k))
    return best


@settings(max_examples=300, deadline=None)
@given(st.data(), machine_lists, migrations, weights, st.integers(2, 40), st.integers(1, 3))
def test_the_best_split_agrees_with_brute_force(
    data: st.DataObject,
    machines: list[MachineCost],
    migration: MigrationCost,
    weight: tuple[float, float],
    epochs: int,
    every: int,
) -> None:
    longest = max(c.last_high_seconds.at(epochs) + migration.high_seconds for c in machines)
    most_expensive = max(c.last_high_usd.at(epochs) + migration.high_usd for c in machines)
    limit = st.just(math.inf) | st.floats(0.05, 2.0)
    earliest = data.draw(st.integers(1, epochs))
    goal = LinearGoal(
        epochs=epochs,
        checkpoint_every=every,
        per_second=weight[0],
        per_usd=weight[1],
        deadline_seconds=longest * data.draw(limit),
        budget_usd=most_expensive * data.draw(limit),
        early_epochs=data.draw(st.none() | st.tuples(st.just(earliest), st.integers(earliest, epochs))),
        weighs_early_time=data.draw(st.booleans()),
    )
    if goal.early_epochs is None:
        goal = replace(goal, weighs_early_time=False)
    else:
        goal = replace(
            goal, early_deadline_seconds=longest * data.draw(limit), early_cap_seconds=longest * data.draw(limit)
        )
    assume(goal.split_can_win)
    found = find_splits(machines, lambda _i, _j: migration, goal)
    least = by_brute_force(machines, lambda _i, _j: migration, goal)
    assert (found[0].score if found else math.inf) == pytest.approx(least, rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(machine_lists, migrations, st.floats(0.1, 1.5), st.integers(2, 30), exponents)
def test_within_one_limit_the_best_split_agrees_with_brute_force_at_every_confidence(
    machines: list[MachineCost], migration: MigrationCost, share: float, epochs: int, exponent: float
) -> None:
    deadline = share * max(c.last_high_seconds.at(epochs) for c in machines)
    goal = LinearGoal(epochs=epochs, deadline_seconds=deadline, exponent=exponent)
    found = find_splits(machines, lambda _i, _j: migration, goal)
    least = by_brute_force(machines, lambda _i, _j: migration, goal)
    assert (found[0].score if found else math.inf) == pytest.approx(least, rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(machine_lists, migrations, st.floats(0, 1), st.integers(2, 30))
def test_without_a_limit_the_best_single_machine_is_never_worse(
    machines: list[MachineCost], migration: MigrationCost, weight: float, epochs: int
) -> None:
    """No split is better, so none is searched."""
    goal = LinearGoal(epochs=epochs, per_second=weight, per_usd=1 - weight)
    alone = min(weight * c.seconds.at(epochs) + (1 - weight) * c.usd.at(epochs) for c in machines)
    assert by_brute_force(machines, lambda _i, _j: migration, goal) >= alone * (1 - 1e-9)
    assert find_splits(machines, lambda _i, _j: migration, goal) == ()


@settings(max_examples=200, deadline=None)
@given(machine_lists, migrations, st.floats(0.1, 1.5), st.integers(2, 30), exponents)
def test_every_split_is_within_the_deadline_at_its_upper_bound(
    machines: list[MachineCost], migration: MigrationCost, share: float, epochs: int, exponent: float
) -> None:
    deadline = share * max(c.last_high_seconds.at(epochs) for c in machines)
    goal = LinearGoal(epochs=epochs, deadline_seconds=deadline, exponent=exponent)
    found = find_splits(machines, lambda _i, _j: migration, goal)
    assume(found)
    for split in found:
        pair = MachinePair(first=machines[split.first], second=machines[split.second], migration=migration, goal=goal)
        assert pair.upper_seconds(split.after) <= deadline


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(amounts, amounts), min_size=2, max_size=5), st.floats(0.05, 0.95), st.integers(10, 60))
def test_a_free_migration_is_within_one_epoch_of_the_convex_hull(
    points: list[tuple[float, float]], share: float, epochs: int
) -> None:
    machines = [make_machine(f"m{n}", seconds, usd) for n, (seconds, usd) in enumerate(points)]
    fastest, slowest = min(p[0] for p in points), max(p[0] for p in points)
    assume(slowest > fastest * 1.01)
    limit = fastest + share * (slowest - fastest)
    # The lowest of all points and chords to the left of the limit.
    chords = [c1 + (c2 - c1) * (limit - t1) / (t2 - t1) for t1, c1 in points for t2, c2 in points if t1 <= limit < t2]
    hull = min([*(c for t, c in points if t <= limit), *chords])
    goal = LinearGoal(epochs=epochs, deadline_seconds=limit * epochs)
    alone = best_single_machine(machines, goal)
    found = find_splits(machines, free, goal)
    best = min(
        *([machines[alone].usd.at(epochs)] if alone is not None else [math.inf]),
        *([found[0].usd] if found else [math.inf]),
    )
    highest, lowest = max(p[1] for p in points), min(p[1] for p in points)
    assert hull * epochs * (1 - 1e-9) <= best <= hull * epochs + (highest - lowest) * (1 + 1e-9)


def test_a_split_can_be_within_two_limits_that_no_single_machine_is_within() -> None:
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    goal = LinearGoal(epochs=10, deadline_seconds=220, budget_usd=70)
    assert best_single_machine(machines, goal) is None
    best = find_splits(machines, free, goal)[0]
    assert best.seconds <= 220
    assert best.usd <= 70


def test_a_migration_that_costs_more_than_it_saves_is_worse_than_one_machine() -> None:
    """Five epochs on the cheap machine save 5 · $8."""
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    goal = LinearGoal(epochs=10, deadline_seconds=200)
    alone = machines[best_single_machine(machines, goal) or 0].usd.at(10)
    assert find_splits(machines, lambda _i, _j: MigrationCost(usd=39), goal)[0].usd < alone
    assert find_splits(machines, lambda _i, _j: MigrationCost(usd=41), goal)[0].usd > alone


def test_machines_at_different_batch_sizes_are_not_paired() -> None:
    machines = [make_machine("fast", 10, 10, batch_size=64), make_machine("cheap", 30, 2, batch_size=128)]
    assert find_splits(machines, free, LinearGoal(epochs=10, deadline_seconds=200)) == ()


def test_the_faster_machine_goes_first_if_the_order_hardly_matters() -> None:
    machines = [make_machine("fast", 10, 10), make_machine("cheap", 30, 2)]
    goal = LinearGoal(epochs=10, deadline_seconds=200)

    def more_expensive_one_way(i: int, _j: int) -> MigrationCost:
        return MigrationCost(usd=0.1 if i == 0 else 0.0)

    found = find_splits(machines, more_expensive_one_way, goal)
    assert found[0].first == 1
    assert prefer_faster_first(found, machines).first == 0


# Sanghvi, table I: an epoch takes 87, 55 and 48 s, and an hour costs $0.45, $0.90 and $1.46.
K80, TWO_K80, P100 = range(3)
SANGHVI = [
    make_machine(name, seconds, seconds * price / 3600)
    for name, seconds, price in (("K80", 87, 0.45), ("2 × K80", 55, 0.90), ("P100", 48, 1.46))
]
IDEAL = IdealPoint(seconds=4800.0, usd=1.0875)
REACHED = 25
"""Epochs until an accuracy of 0.8, as measured."""


def test_sanghvi_trains_the_steep_part_on_the_fastest_gpu_and_the_rest_on_the_cheapest() -> None:
    """Section VII: an early look at the final accuracy; a migration is free there."""
    early = EarlyTarget(metric="accuracy", value=0.8)
    goal = linear_goal(
        Goal(kind="fastest"), SANGHVI, epochs=100, ideal=IDEAL, early=early, early_epochs=Interval.exactly(REACHED)
    )
    best = find_splits(SANGHVI, free, goal)[0]
    assert (best.first, best.second, best.after) == (P100, K80, REACHED)
    assert best.usd == pytest.approx(25 * 0.019467 + 75 * 0.010875, rel=1e-4)
    alone = best_single_machine(SANGHVI, goal)
    assert alone == P100
    assert 1 - best.usd / SANGHVI[P100].usd.at(100) == pytest.approx(0.331, abs=1e-3)


@pytest.mark.parametrize(("weight", "first"), [(0.7, P100), (0.4, TWO_K80)])
def test_sanghvi_the_weight_of_time_decides_which_gpu_trains_the_steep_part(weight: float, first: int) -> None:
    """Δ of two K80 relative to one is 1.25, of a P100 1.01: a P100 pays only with a high weight of time."""
    weighted, early = Goal(kind="weighted", weight_time=weight), EarlyTarget(metric="accuracy", value=0.8)
    reached = Interval.exactly(REACHED)
    goal = linear_goal(weighted, SANGHVI, epochs=100, ideal=IDEAL, early=early, early_epochs=reached)
    best = find_splits(SANGHVI, free, goal)[0]
    assert (best.first, best.second, best.after) == (first, K80, REACHED)


@pytest.mark.parametrize(("deadline", "pair"), [(50 * 100, {P100, TWO_K80}), (70 * 100, {TWO_K80, K80})])
def test_sanghvi_a_deadline_is_met_by_two_neighbours_on_the_hull(deadline: float, pair: set[int]) -> None:
    goal = linear_goal(Goal(deadline_seconds=deadline), SANGHVI, epochs=100, ideal=IDEAL)
    best = prefer_faster_first(find_splits(SANGHVI, free, goal), SANGHVI)
    assert {best.first, best.second} == pair
    assert SANGHVI[best.first].seconds.per_epoch < SANGHVI[best.second].seconds.per_epoch
    assert deadline - 40 <= best.seconds <= deadline
