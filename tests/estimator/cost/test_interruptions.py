"""The closed form of the expected time, compared with a simulation of interruptions."""

import random
from math import exp, inf, log1p
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trainfare.estimator.cost.checkpoints import daly_interval
from trainfare.estimator.cost.interruptions import (
    CheckpointPlan,
    ValueRange,
    count_quantile,
    expected_rework,
    expected_seconds,
    plan_checkpoints,
)
from trainfare.model.interval import Interval

HOUR = 3600.0
CASES = [
    # work, start, pieces, checkpoint, the last one, interruptions an hour
    (10 * HOUR, 500.0, 20, 10.0, 0.0, 0.3),
    (1 * HOUR, 400.0, 1, 10.0, 0.0, 1.0),
    (28 * HOUR, 500.0, 30, 60.0, 60.0, 0.7),
    (2 * HOUR, 1800.0, 40, 5.0, 0.0, 2.0),
]


def simulated(
    rng: random.Random, work: float, start: float, plan: CheckpointPlan, per_second: float
) -> tuple[float, int]:
    """Seconds and interruptions of one training that continues from the last checkpoint after each interruption."""
    seconds, interruptions = 0.0, 0

    def uninterrupted(wanted: float) -> bool:
        nonlocal seconds, interruptions
        until = rng.expovariate(per_second)
        seconds += min(until, wanted)
        interruptions += until < wanted
        return until >= wanted

    def begin() -> None:
        while not uninterrupted(start):
            pass

    begin()
    pieces = int(plan.pieces)
    for number in range(pieces):
        written = float(plan.checkpoint if number < pieces - 1 else plan.last_checkpoint)
        while not uninterrupted(work / pieces + written):
            begin()
    return seconds, interruptions


@pytest.mark.parametrize(("work", "start", "count", "checkpoint", "last", "per_hour"), CASES)
def test_closed_form_agrees_with_a_simulation(
    work: float, start: float, count: int, checkpoint: float, last: float, per_hour: float
) -> None:
    rng = random.Random(7)
    plan = CheckpointPlan(pieces=count, checkpoint=checkpoint, last_checkpoint=last)
    runs = [simulated(rng, work, start, plan, per_hour / HOUR) for _ in range(2000)]
    times = [seconds for seconds, _ in runs]
    expected = expected_seconds(work, start=start, plan=plan, per_second=per_hour / HOUR)
    four_errors = 4 * stdev(times) / len(times) ** 0.5
    assert expected == pytest.approx(fmean(times), abs=four_errors)
    found = expected_rework(work, start=start, plan=plan, per_hour=Interval.exactly(per_hour))
    assert found.interruptions.value == pytest.approx(fmean(n for _, n in runs), rel=0.08)
    without = start + work + plan.written_seconds
    inside = [found.seconds.low - 1e-6 <= t - without <= found.seconds.high + 1e-6 for t in times]
    assert 0.86 <= fmean(inside) <= 0.97


times = st.floats(1, 1e6)
counts = st.integers(1, 200)


@given(times, times, counts, st.floats(0, 100))
def test_without_interruptions_there_is_no_rework(work: float, start: float, count: int, checkpoint: float) -> None:
    plan = CheckpointPlan(pieces=count, checkpoint=checkpoint, last_checkpoint=0.0)
    found = expected_rework(work, start=start, plan=plan, per_hour=Interval.exactly(0.0))
    assert [float(each) for each in (*found.seconds, *found.interruptions)] == [0.0] * 6


@given(times, st.floats(1, 1e4), counts, st.floats(1e-4, 3), st.floats(1, 4), st.integers(1, 8))
def test_more_interruptions_never_take_less_time(
    work: float, start: float, count: int, per_hour: float, more: float, nodes: int
) -> None:
    assume(nodes * per_hour * more * 2 * (work / count + start + 5) / HOUR < 50)
    plan = CheckpointPlan(pieces=count, checkpoint=5.0, last_checkpoint=0.0)
    few, many = (
        expected_rework(work, start=start, plan=plan, per_hour=Interval.within_factor(rate, 2), nodes=nodes)
        for rate in (per_hour, per_hour * more)
    )
    assert many.seconds.value >= few.seconds.value * (1 - 1e-9)
    for found in (few, many):
        assert found.seconds.low <= found.seconds.value <= found.seconds.high


def test_daly_interval_is_better_than_twice_or_half_of_it() -> None:
    work, start, delta, per_second = 20 * HOUR, 300.0, 20.0, 0.3 / HOUR
    every = daly_interval(delta, per_second=per_second)
    best, half, twice = (
        expected_seconds(
            work,
            start=start,
            plan=CheckpointPlan(pieces=round(work / each), checkpoint=delta, last_checkpoint=0.0),
            per_second=per_second,
        )
        for each in (every, every / 2, every * 2)
    )
    assert best < half
    assert best < twice


def test_own_checkpoints_of_the_program_are_used() -> None:
    assert plan_checkpoints(1000.0, checkpoint=3.0, own=10, per_second=1e-4) == CheckpointPlan(
        pieces=10, checkpoint=3.0, last_checkpoint=3.0
    )
    assert plan_checkpoints(1000.0, checkpoint=3.0, own=0, per_second=0.0).pieces == 1
    by_daly = plan_checkpoints(1e5, checkpoint=3.0, own=0, per_second=1e-4)
    assert by_daly.pieces == round(1e5 / (2 * 3 / 1e-4) ** 0.5 + 0.5)


def test_arrays_give_what_each_of_their_elements_gives() -> None:
    work, start, rates = np.array([36_000.0, 3600.0, 1e5]), np.array([500.0, 400.0, 60.0]), np.array([0.3, 0.0, 2.0])
    own, nodes = np.array([0, 3, 40]), np.array([1, 2, 8])
    plan = plan_checkpoints(work, checkpoint=5.0, own=own, per_second=nodes * rates / HOUR)
    per_hour = ValueRange(rates, rates / 3, rates * 3)
    together = expected_rework(work, start=start, plan=plan, per_hour=per_hour, nodes=nodes)
    for i in range(3):
        single = plan_checkpoints(work[i], checkpoint=5.0, own=own[i], per_second=nodes[i] * rates[i] / HOUR)
        alone = expected_rework(
            work[i],
            start=start[i],
            plan=single,
            per_hour=ValueRange(rates[i], rates[i] / 3, rates[i] * 3),
            nodes=nodes[i],
        )
        for many, one in ((together.seconds, alone.seconds), (together.interruptions, alone.interruptions)):
            assert [float(end[i]) for end in many] == pytest.approx([float(end) for end in one], rel=1e-12)


def test_expected_time_of_a_hopeless_training_is_finite() -> None:
    alone = CheckpointPlan(pieces=1, checkpoint=0.0, last_checkpoint=0.0)
    assert expected_seconds(1e9, start=60.0, plan=alone, per_second=1e-2) > 1e30


@pytest.mark.parametrize(("mean", "share", "number"), [(0.3, 0.05, 0), (0.3, 0.95, 1), (3.0, 0.05, 1), (3.0, 0.95, 6)])
def test_quantiles_of_a_poisson_number(mean: float, share: float, number: int) -> None:
    assert count_quantile(mean, mean, share) == number


def test_quantiles_of_many_interruptions_are_nearly_exact() -> None:
    from scipy.stats import poisson

    for share in (0.05, 0.95):
        assert count_quantile(1000.0, 1000.0, share) == pytest.approx(poisson.ppf(share, 1000.0), abs=1)


def test_quantiles_of_a_negative_binomial_number() -> None:
    from scipy.stats import nbinom

    mean, variance = 6.0, 24.0
    p = mean / variance
    for share in (0.05, 0.5, 0.95):
        assert count_quantile(mean, variance, share) == nbinom.ppf(share, mean * p / (1 - p), p)


@given(st.floats(1e-6, 200), st.floats(0, 1000), st.sampled_from([0.05, 0.5, 0.95]))
def test_quantile_is_the_smallest_number_that_reaches_the_share(mean: float, excess: float, share: float) -> None:
    """By adding up the probabilities one by one."""
    variance = mean * (1 + excess)
    overdispersed = variance > mean * (1 + 1e-6)
    r = mean**2 / (variance - mean) if overdispersed else inf
    probability = exp(-r * log1p(mean / r)) if overdispersed else exp(-mean)
    number, total = 0, probability
    while total < share:
        growth = (number + r) * mean / (r + mean) if overdispersed else mean
        number += 1
        probability *= growth / number
        total += probability
    assume(abs(total - share) > 1e-9)
    assert count_quantile(mean, variance, share) == number
