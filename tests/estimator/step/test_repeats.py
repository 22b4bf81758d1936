import random
from itertools import repeat
from math import exp
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.step.repeats import repeat_interval, steady_seconds, student_quantile

seconds = st.floats(1e-5, 1e3)


@pytest.mark.parametrize("v", [1.0, 1.6, 2.6, 5.0, 30.0, 500.0])
def test_students_t_is_that_of_the_tables(v: float) -> None:
    from scipy.stats import t

    assert student_quantile(v) == pytest.approx(t.ppf(0.95, v), rel=1e-6)


@given(st.lists(st.lists(seconds, min_size=1, max_size=40), min_size=1, max_size=5))
def test_an_interval_holds_its_value(runs: list[list[float]]) -> None:
    found = repeat_interval(runs)
    assert 0 < found.low <= found.value <= found.high


def test_one_hiccup_moves_neither_the_time_nor_its_interval() -> None:
    calm = [0.1] * 30
    assert steady_seconds([*calm, 30.0]) == pytest.approx(0.1)
    assert repeat_interval([[*calm, 30.0]]).high == pytest.approx(repeat_interval([calm]).high)


def test_what_every_tenth_iteration_pays_for_is_in_the_mean() -> None:
    """A loader that stalls: the median would promise half of the time."""
    stalls = [1.1 if i % 10 == 0 else 0.1 for i in range(100)]
    assert median(stalls) == 0.1
    assert steady_seconds(stalls) == pytest.approx(0.2, rel=0.15)


def test_the_first_iteration_of_an_epoch_is_spread_over_it() -> None:
    """Iterations 2 to 60, 20 an epoch: the 21st and the 41st begin one."""
    slow = [1.1 if i in (21, 41) else 0.1 for i in range(2, 61)]
    assert steady_seconds(slow, per_epoch=20) == pytest.approx(0.1 + 1.0 / 20)
    assert repeat_interval([slow], per_epoch=20).high > repeat_interval([[0.15] * 59], per_epoch=20).high


def test_repeats_that_agree_make_it_surer_and_repeats_that_differ_less_sure() -> None:
    one, alike, apart = repeat_interval([[0.1]]), repeat_interval([[0.1], [0.1], [0.1]]), repeat_interval([[0.1], [0.13], [0.08]])
    assert alike.high < one.high < apart.high
    assert apart.value == pytest.approx((0.1 * 0.13 * 0.08) ** (1 / 3))


def test_short_iterations_are_less_sure() -> None:
    short, long = repeat_interval([[0.001]]), repeat_interval([[1.0]])
    assert short.high / short.value > long.high / long.value


def test_a_restless_run_is_less_sure_however_long_it_is() -> None:
    rng = random.Random(5)  # noqa: S311 not for secrets
    restless = [0.1 * exp(rng.gauss(0, 0.05)) * (1 + (i // 40) % 2) for i in range(400)]
    assert repeat_interval([restless]).high / repeat_interval([[fmean(restless)] * 400]).high > 1.2


def test_a_validation_of_no_time_at_all_stays_none() -> None:
    assert repeat_interval([[0.0] * 20]).high == 0
    assert repeat_interval([[0.0]]).value == 0


@pytest.mark.parametrize("known", [1, 2, 4])
def test_nine_in_ten_runs_of_the_noise_it_believes_in_lie_inside(known: int) -> None:
    """Runs drawn from the model itself: s² = s₀²·ν₀/χ²(ν₀)."""
    rng = random.Random(11)  # noqa: S311 not for secrets
    inside = []
    for _ in repeat(None, 3000):
        s = 0.0095 * (1.6 / rng.gammavariate(1.6 / 2, 2)) ** 0.5
        runs = [0.1 * exp(rng.gauss(0, s)) for _ in range(known + 1)]
        found = repeat_interval([[run] for run in runs[1:]])
        inside.append(found.low <= runs[0] <= found.high)
    assert 0.86 <= fmean(inside) <= 0.94


def test_nothing_measured_is_refused() -> None:
    nothings: list[list[list[float]]] = [[], [[]], [[0.1], []]]
    for nothing in nothings:
        with pytest.raises(ValueError, match="at least one iteration"):
            repeat_interval(nothing)
