"""Two machines one after the other, against every pair and every split tried one by one."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.makers import make_candidate, make_offer, make_vm_type
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.model.split import Early
from trainfare.recommender.choose import IdealPoint
from trainfare.recommender.split.search import (
    Course,
    Line,
    MigrationCost,
    Pair,
    Share,
    Wanted,
    best_alone,
    drift_of,
    fast_first,
    saving,
    splits,
    wanted_of,
)

FREE = MigrationCost()


def free(_i: int, _j: int) -> MigrationCost:
    return FREE


def make_course(
    name: str,
    seconds: float,
    usd: float,
    *,
    start: float = 0.0,
    start_usd: float = 0.0,
    factor: float = 1.0,
    batch_size: int = 64,
) -> Course:
    """So much an epoch, and at the most `factor` times as much."""
    line, cost = Line(start=start, per_epoch=seconds), Line(start=start_usd, per_epoch=usd)
    most, most_cost = (Line(start=x.start * factor, per_epoch=x.per_epoch * factor) for x in (line, cost))
    return Course(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name=name)), batch_size=batch_size),
        seconds=line,
        usd=cost,
        most_seconds=most,
        most_usd=most_cost,
        last_seconds=most,
        last_usd=most_cost,
    )


amounts = st.floats(0.01, 100.0)
courses = st.lists(
    st.builds(
        make_course,
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
tolls = st.builds(
    lambda seconds, usd, factor: MigrationCost(
        seconds=seconds, usd=usd, most_seconds=seconds * factor, most_usd=usd * factor
    ),
    st.floats(0, 50),
    st.floats(0, 50),
    st.floats(1, 3),
)
weights = st.sampled_from([(0.0, 1.0), (1.0, 0.0), (0.3, 0.7)])


def by_brute_force(machines: list[Course], toll: Callable[[int, int], MigrationCost], wanted: Wanted) -> float:
    """The least score of all pairs and all splits that keep every limit."""
    best = math.inf
    for i, first in enumerate(machines):
        for j, second in enumerate(machines):
            if i == j:
                continue
            pair = Pair(first=first, second=second, toll=toll(i, j), wanted=wanted)
            for k in range(wanted.every, wanted.epochs, wanted.every):
                if (
                    pair.most_seconds(k) <= wanted.deadline_seconds
                    and pair.most_usd(k) <= wanted.budget_usd
                    and pair.most_early_seconds(k) <= wanted.early_deadline_seconds
                    and pair.early_seconds(k) <= wanted.early_cap_seconds * (1 + 1e-9)
                ):
                    best = min(best, pair.score(k))
    return best


@settings(max_examples=300, deadline=None)
@given(st.data(), courses, tolls, weights, st.integers(2, 40), st.integers(1, 3))
def test_no_pair_and_no_split_is_better(
    data: st.DataObject,
    machines: list[Course],
    toll: MigrationCost,
    weight: tuple[float, float],
    epochs: int,
    every: int,
) -> None:
    longest = max(c.last_seconds.at(epochs) + toll.most_seconds for c in machines)
    dearest = max(c.last_usd.at(epochs) + toll.most_usd for c in machines)
    limit = st.just(math.inf) | st.floats(0.05, 2.0)
    soonest = data.draw(st.integers(1, epochs))
    wanted = Wanted(
        epochs=epochs,
        every=every,
        per_second=weight[0],
        per_usd=weight[1],
        deadline_seconds=longest * data.draw(limit),
        budget_usd=dearest * data.draw(limit),
        early=data.draw(st.none() | st.tuples(st.just(soonest), st.integers(soonest, epochs))),
        weighs_early=data.draw(st.booleans()),
    )
    if wanted.early is None:
        wanted = replace(wanted, weighs_early=False)
    else:
        wanted = replace(
            wanted, early_deadline_seconds=longest * data.draw(limit), early_cap_seconds=longest * data.draw(limit)
        )
    assume(wanted.can_pay)
    found = splits(machines, lambda _i, _j: toll, wanted)
    least = by_brute_force(machines, lambda _i, _j: toll, wanted)
    assert (found[0].score if found else math.inf) == pytest.approx(least, rel=1e-6)


@settings(max_examples=200, deadline=None)
@given(courses, tolls, st.floats(0, 1), st.integers(2, 30))
def test_without_a_limit_one_machine_is_never_worse(
    machines: list[Course], toll: MigrationCost, weight: float, epochs: int
) -> None:
    """Whatever the split, and so it is not even looked for."""
    wanted = Wanted(epochs=epochs, per_second=weight, per_usd=1 - weight)
    alone = min(weight * c.seconds.at(epochs) + (1 - weight) * c.usd.at(epochs) for c in machines)
    assert by_brute_force(machines, lambda _i, _j: toll, wanted) >= alone * (1 - 1e-9)
    assert splits(machines, lambda _i, _j: toll, wanted) == ()


@settings(max_examples=200, deadline=None)
@given(courses, tolls, st.floats(0.1, 1.5), st.integers(2, 30))
def test_the_limit_is_kept_at_the_most(machines: list[Course], toll: MigrationCost, share: float, epochs: int) -> None:
    deadline = share * max(c.last_seconds.at(epochs) for c in machines)
    wanted = Wanted(epochs=epochs, deadline_seconds=deadline)
    for split in splits(machines, lambda _i, _j: toll, wanted):
        pair = Pair(first=machines[split.first], second=machines[split.second], toll=toll, wanted=wanted)
        assert pair.most_seconds(split.after) <= deadline


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(amounts, amounts), min_size=2, max_size=5), st.floats(0.05, 0.95), st.integers(10, 60))
def test_a_free_move_comes_within_an_epoch_of_the_convex_hull(
    points: list[tuple[float, float]], share: float, epochs: int
) -> None:
    machines = [make_course(f"m{n}", seconds, usd) for n, (seconds, usd) in enumerate(points)]
    fastest, slowest = min(p[0] for p in points), max(p[0] for p in points)
    assume(slowest > fastest * 1.01)
    limit = fastest + share * (slowest - fastest)
    # The lowest of all chords, and all points, that lie left of the limit.
    chords = [c1 + (c2 - c1) * (limit - t1) / (t2 - t1) for t1, c1 in points for t2, c2 in points if t1 <= limit < t2]
    hull = min([*(c for t, c in points if t <= limit), *chords])
    wanted = Wanted(epochs=epochs, deadline_seconds=limit * epochs)
    alone = best_alone(machines, wanted)
    found = splits(machines, free, wanted)
    best = min(
        *([machines[alone].usd.at(epochs)] if alone is not None else [math.inf]),
        *([found[0].usd] if found else [math.inf]),
    )
    dearest, cheapest = max(p[1] for p in points), min(p[1] for p in points)
    assert hull * epochs * (1 - 1e-9) <= best <= hull * epochs + (dearest - cheapest) * (1 + 1e-9)


def test_both_limits_may_be_kept_by_a_mix_only() -> None:
    machines = [make_course("fast", 10, 10), make_course("cheap", 30, 2)]
    wanted = Wanted(epochs=10, deadline_seconds=220, budget_usd=70)
    assert best_alone(machines, wanted) is None
    best = splits(machines, free, wanted)[0]
    assert best.seconds <= 220
    assert best.usd <= 70


def test_a_move_dearer_than_what_it_saves_is_not_made() -> None:
    """Five epochs on the cheap machine save 5 × 8 $."""
    machines = [make_course("fast", 10, 10), make_course("cheap", 30, 2)]
    wanted = Wanted(epochs=10, deadline_seconds=200)
    alone = machines[best_alone(machines, wanted) or 0].usd.at(10)
    assert splits(machines, lambda _i, _j: MigrationCost(usd=39), wanted)[0].usd < alone
    assert splits(machines, lambda _i, _j: MigrationCost(usd=41), wanted)[0].usd > alone


def test_machines_at_different_batch_sizes_are_no_pair() -> None:
    machines = [make_course("fast", 10, 10, batch_size=64), make_course("cheap", 30, 2, batch_size=128)]
    assert splits(machines, free, Wanted(epochs=10, deadline_seconds=200)) == ()


def test_the_faster_machine_goes_first_where_the_order_hardly_matters() -> None:
    machines = [make_course("fast", 10, 10), make_course("cheap", 30, 2)]
    wanted = Wanted(epochs=10, deadline_seconds=200)

    def dearer_one_way(i: int, _j: int) -> MigrationCost:
        return MigrationCost(usd=0.1 if i == 0 else 0.0)

    found = splits(machines, dearer_one_way, wanted)
    assert found[0].first == 1
    assert fast_first(found, machines).first == 0


# Sanghvi, table I: an epoch takes 87, 55 and 48 s and costs 0.45, 0.90 and 1.46 $ an hour.
K80, TWO_K80, P100 = range(3)
SANGHVI = [
    make_course(name, seconds, seconds * price / 3600)
    for name, seconds, price in (("K80", 87, 0.45), ("2 × K80", 55, 0.90), ("P100", 48, 1.46))
]
YARDSTICK = IdealPoint(seconds=4800.0, usd=1.0875)
REACHED = 25
"""Epochs until an accuracy of 0.8, as it came."""


def test_sanghvi_the_steep_part_on_the_fastest_gpu_and_the_rest_on_the_cheapest() -> None:
    """Section VII: what is wanted quickly is where the accuracy will end up; moving costs nothing there."""
    early = Early(metric="accuracy", value=0.8)
    wanted = wanted_of(
        Goal(kind="fastest"), SANGHVI, epochs=100, least=YARDSTICK, early=early, early_epochs=Interval.exactly(REACHED)
    )
    best = splits(SANGHVI, free, wanted)[0]
    assert (best.first, best.second, best.after) == (P100, K80, REACHED)
    assert best.usd == pytest.approx(25 * 0.019467 + 75 * 0.010875, rel=1e-4)
    alone = best_alone(SANGHVI, wanted)
    assert alone == P100
    assert 1 - best.usd / SANGHVI[P100].usd.at(100) == pytest.approx(0.331, abs=1e-3)


@pytest.mark.parametrize(("weight", "first"), [(0.7, P100), (0.4, TWO_K80)])
def test_sanghvi_what_time_is_worth_decides_on_which_gpus_the_steep_part_goes(weight: float, first: int) -> None:
    """The Δ of two K80 against one is 1.25, that of a P100 1.01: the P100 is for who counts time more than money."""
    goal, early = Goal(kind="weighted", weight_time=weight), Early(metric="accuracy", value=0.8)
    reached = Interval.exactly(REACHED)
    wanted = wanted_of(goal, SANGHVI, epochs=100, least=YARDSTICK, early=early, early_epochs=reached)
    best = splits(SANGHVI, free, wanted)[0]
    assert (best.first, best.second, best.after) == (first, K80, REACHED)


@pytest.mark.parametrize(("deadline", "pair"), [(50 * 100, {P100, TWO_K80}), (70 * 100, {TWO_K80, K80})])
def test_sanghvi_a_deadline_is_met_by_the_neighbours_on_the_hull(deadline: float, pair: set[int]) -> None:
    wanted = wanted_of(Goal(deadline_seconds=deadline), SANGHVI, epochs=100, least=YARDSTICK)
    best = fast_first(splits(SANGHVI, free, wanted), SANGHVI)
    assert {best.first, best.second} == pair
    assert SANGHVI[best.first].seconds.per_epoch < SANGHVI[best.second].seconds.per_epoch
    assert deadline - 40 <= best.seconds <= deadline


def share(alike: str, value: float, factor: float) -> Share:
    return Share(alike=alike, amount=Interval.within_factor(value, factor))


def test_a_saving_within_its_doubt_is_none() -> None:
    alone = share("fast", 10.0, 1.1)
    assert saving(alone, [share("fast", 4.0, 1.1), share("cheap", 5.9, 1.1)], "usd") is None
    found = saving(alone, [share("fast", 4.0, 1.1), share("cheap", 3.0, 1.1)], "usd")
    assert found is not None
    assert found.amount.value == pytest.approx(3.0)
    # 6 $ of the fast machine are exchanged for 3 $ of the cheap one; each may be a tenth off.
    assert found.amount.low == pytest.approx(3.0 - math.hypot(6 - 6 / 1.1, 0.3), rel=1e-6)
    assert found.share == pytest.approx(0.3)


def test_what_errs_alike_does_not_hide_a_saving() -> None:
    """The same GPU at two prices: twice as long is twice as long on both."""
    alone, parts = share("gpu", 10.0, 2.0), [share("gpu", 4.0, 2.0), share("gpu", 5.0, 2.0)]
    found = saving(alone, parts, "usd")
    assert found is not None
    assert (found.amount.low, found.amount.high) == pytest.approx((0.5, 2.0))


@given(st.floats(1, 100), st.floats(0.1, 100), st.floats(0.1, 100), st.floats(1, 3), st.floats(0, 10))
def test_a_saving_is_surely_more_than_nothing(a: float, b: float, c: float, factor: float, drift: float) -> None:
    found = saving(share("x", a, factor), [share("x", b, factor), share("y", c, factor)], "usd", drift=(-drift, drift))
    assert found is None or (found.amount.low > 0 and found.amount.value == pytest.approx(a - b - c))


def test_a_training_that_may_end_before_the_move_saves_less() -> None:
    machines = [make_course("fast", 10, 10), make_course("cheap", 30, 2)]
    wanted = Wanted(epochs=10, deadline_seconds=200)
    toll = MigrationCost(usd=1.0)
    split = next(s for s in splits(machines, lambda _i, _j: toll, wanted) if s.first == 0)
    fewer, more = drift_of(machines, 0, split, toll, wanted, Interval(value=10, low=3, high=12))
    assert split.after == 5
    assert fewer == pytest.approx(0 - (5 * 8 - 1))  # ended after three epochs, it was never moved
    assert more == pytest.approx(2 * 8)
