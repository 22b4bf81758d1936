import random
from itertools import repeat
from math import atan, cos, exp, pi, sqrt
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.step.repeats import (
    ITERATION_NOISE,
    ONE_TIME_NOISE,
    RunNoise,
    repeat_interval,
    steady_seconds,
    student_quantile,
)

seconds = st.floats(1e-5, 1e3)


@pytest.mark.parametrize("v", [1.0, 1.6, 2.6, 5.0, 30.0, 500.0])
def test_student_quantile_has_five_percent_above_it(v: float) -> None:
    """By integrating the density: with t = √v·tan θ it is proportional to cos^(v−1) θ."""
    from scipy.integrate import quad

    def density(angle: float) -> float:
        return float(cos(angle) ** (v - 1))

    below, _ = quad(density, 0, atan(student_quantile(v) / sqrt(v)))
    total, _ = quad(density, 0, pi / 2)
    assert below / total == pytest.approx(0.9, rel=1e-6)


@pytest.mark.parametrize("noise", [ITERATION_NOISE, ONE_TIME_NOISE])
def test_stored_quantile_is_that_of_a_single_run(noise: RunNoise) -> None:
    assert noise.quantile == pytest.approx(student_quantile(noise.degrees), rel=1e-12)


@given(st.lists(st.lists(seconds, min_size=1, max_size=40), min_size=1, max_size=5))
def test_interval_contains_its_value(runs: list[list[float]]) -> None:
    found = repeat_interval(runs)
    assert 0 < found.low <= found.value <= found.high


def test_one_outlier_moves_neither_the_time_nor_its_interval() -> None:
    constant = [0.1] * 30
    assert steady_seconds([*constant, 30.0]) == pytest.approx(0.1)
    assert repeat_interval([[*constant, 30.0]]).high == pytest.approx(repeat_interval([constant]).high)


def test_stall_in_every_tenth_iteration_counts_in_the_mean() -> None:
    """With a loader that stalls, the median would be half of the mean."""
    stalls = [1.1 if i % 10 == 0 else 0.1 for i in range(100)]
    assert median(stalls) == 0.1
    assert steady_seconds(stalls) == pytest.approx(0.2, rel=0.15)


def test_extra_time_of_an_epochs_first_iteration_is_spread_over_the_epoch() -> None:
    """Iterations 2 to 60 with 20 an epoch: the 21st and the 41st are the first of their epochs."""
    slow = [1.1 if i in (21, 41) else 0.1 for i in range(2, 61)]
    assert steady_seconds(slow, per_epoch=20) == pytest.approx(0.1 + 1.0 / 20)
    assert repeat_interval([slow], per_epoch=20).high > repeat_interval([[0.15] * 59], per_epoch=20).high


def test_equal_repeats_narrow_the_interval_and_different_ones_widen_it() -> None:
    one = repeat_interval([[0.1]])
    equal = repeat_interval([[0.1], [0.1], [0.1]])
    different = repeat_interval([[0.1], [0.13], [0.08]])
    assert equal.high < one.high < different.high
    assert different.value == pytest.approx((0.1 * 0.13 * 0.08) ** (1 / 3))


def test_short_iterations_have_wider_intervals() -> None:
    short, long = repeat_interval([[0.001]]), repeat_interval([[1.0]])
    assert short.high / short.value > long.high / long.value


def test_varying_run_has_a_wider_interval_however_long_it_is() -> None:
    rng = random.Random(5)
    varying = [0.1 * exp(rng.gauss(0, 0.05)) * (1 + (i // 40) % 2) for i in range(400)]
    assert repeat_interval([varying]).high / repeat_interval([[fmean(varying)] * 400]).high > 1.2


def test_validation_without_time_stays_zero() -> None:
    assert repeat_interval([[0.0] * 20]).high == 0
    assert repeat_interval([[0.0]]).value == 0


@pytest.mark.parametrize("known", [1, 2, 4])
def test_nine_in_ten_runs_drawn_from_the_model_lie_inside(known: int) -> None:
    """Runs are drawn with s² = s₀²·ν₀/χ²(ν₀)."""
    rng = random.Random(11)
    inside = []
    for _ in repeat(None, 3000):
        s = 0.0095 * (1.6 / rng.gammavariate(1.6 / 2, 2)) ** 0.5
        runs = [0.1 * exp(rng.gauss(0, s)) for _ in range(known + 1)]
        found = repeat_interval([[run] for run in runs[1:]])
        inside.append(found.low <= runs[0] <= found.high)
    assert 0.86 <= fmean(inside) <= 0.94


def test_run_without_iterations_is_refused() -> None:
    empty: list[list[list[float]]] = [[], [[]], [[0.1], []]]
    for runs in empty:
        with pytest.raises(ValueError, match="at least one iteration"):
            repeat_interval(runs)
