import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.estimator.iterations import measured_times, steady_iteration, training_phases

seconds = st.floats(1e-4, 1e3)


def total(profile_epochs: int, **changes: object) -> float:
    phases = training_phases(measured_times(make_profile(**changes)), iterations_per_epoch=23, epochs=profile_epochs)
    return sum(phase.seconds.value for phase in phases)


def test_equation_5_3_by_hand() -> None:
    """init 2 + first 1 + 22 × 0.1 + first validation 0.3 + 9 × (23 × 0.1 + later validation 0.2)."""
    assert total(10) == pytest.approx(2 + 1 + 22 * 0.1 + 0.3 + 9 * (23 * 0.1 + 0.2))


def test_without_validation_only_iterations_count() -> None:
    assert total(10, validation_seconds=()) == pytest.approx(2 + 1 + (230 - 1) * 0.1)


def test_one_validation_stands_for_the_later_ones() -> None:
    assert total(3, validation_seconds=(0.3,)) == pytest.approx(2 + 1 + 68 * 0.1 + 3 * 0.3)


@given(st.integers(1, 50), st.integers(1, 50))
def test_more_epochs_never_take_less_time(a: int, b: int) -> None:
    fewer, more = sorted((a, b))
    assert total(fewer) <= total(more)


def test_one_slow_iteration_does_not_move_the_steady_time() -> None:
    calm = [0.1] * 20
    assert steady_iteration([*calm, 30.0]).value == steady_iteration(calm).value


@given(st.lists(seconds, min_size=1, max_size=40))
def test_the_steady_time_is_the_median_and_lies_in_its_interval(values: list[float]) -> None:
    steady = steady_iteration(values)
    assert steady.value == median(values)
    assert steady.low <= steady.value <= steady.high


@pytest.mark.parametrize("n", [5, 9, 20, 50, 200, 5000])
def test_the_ends_hold_the_median_nine_times_in_ten(n: int) -> None:
    """Exactly, by the binomial law, up to the normal approximation of the rank."""
    j = max(1, math.floor((n - 1.645 * math.sqrt(n)) / 2))
    log_half = -n * math.log(2)
    outside = 2 * sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + log_half) for i in range(j)
    )
    assert outside <= 0.115


def test_more_iterations_make_the_interval_narrower() -> None:
    rng = random.Random(3)  # noqa: S311 not for secrets
    noisy = [0.1 * math.exp(rng.gauss(0, 0.2)) for _ in range(400)]
    few, many = steady_iteration(noisy[:10]), steady_iteration(noisy)
    assert many.high - many.low < few.high - few.low


def test_no_later_iteration_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one iteration"):
        steady_iteration([])
