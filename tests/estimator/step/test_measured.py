import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.estimator.step.measured import (
    StepTimes,
    epoch_seconds,
    interpolate_epochs,
    measured_times,
    simulate_epochs,
    steady_iteration,
    strategy_seconds,
    training_phases,
    training_seconds,
)
from trainfare.model.interval import Interval

seconds = st.floats(1e-4, 1e3)
exact = seconds.map(Interval.exactly)
unvalidated = st.builds(StepTimes, init=exact, first=exact, later=exact)
validated = st.builds(
    StepTimes,
    init=exact,
    first=exact,
    later=exact,
    first_validation=st.just(Interval.exactly(0.0)) | exact,
    later_validation=st.none() | exact,
)
step_times = unvalidated | validated


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
    constant = [0.1] * 20
    assert steady_iteration([*constant, 30.0]).value == steady_iteration(constant).value


@given(st.lists(seconds, min_size=1, max_size=11))
def test_steady_time_of_few_iterations_is_their_median_and_lies_in_its_interval(values: list[float]) -> None:
    steady = steady_iteration(values)
    assert steady.value == median(values)
    assert steady.low <= steady.value <= steady.high


@pytest.mark.parametrize("n", [5, 9, 20, 50, 200, 5000])
def test_interval_of_a_median_covers_it_nine_times_in_ten(n: int) -> None:
    """By the binomial law, up to the normal approximation of the rank j of the lower end."""
    j = round(Interval.from_median(range(1, n + 1)).low)
    log_half = -n * math.log(2)
    outside = 2 * sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + log_half) for i in range(j)
    )
    assert outside <= 0.115


def test_more_iterations_make_the_interval_narrower() -> None:
    rng = random.Random(3)
    noisy = [0.1 * math.exp(rng.gauss(0, 0.2)) for _ in range(400)]
    few, many = steady_iteration(noisy[:10]), steady_iteration(noisy)
    assert many.high - many.low < few.high - few.low


def test_run_without_later_iterations_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one iteration"):
        steady_iteration([])


def brute_force(times: StepTimes, *, iterations_per_epoch: int, epochs: int) -> float:
    """The training time, one iteration after the other."""
    clock = times.init.value
    for epoch in range(epochs):
        for iteration in range(iterations_per_epoch):
            clock += (times.first if epoch == iteration == 0 else times.later).value
        if times.first_validation is not None:
            later = times.later_validation or times.first_validation
            clock += (times.first_validation if epoch == 0 else later).value
    return clock


@given(step_times, st.integers(1, 30), st.integers(1, 12))
def test_equation_5_3_equals_the_sum_over_epochs_and_iterations(times: StepTimes, iterations: int, epochs: int) -> None:
    ours = training_seconds(times, iterations_per_epoch=iterations, epochs=epochs)
    assert ours.value == pytest.approx(brute_force(times, iterations_per_epoch=iterations, epochs=epochs))


@given(step_times, st.integers(1, 30), st.integers(1, 12))
def test_epochs_by_equation_5_2_add_up_to_equation_5_3(times: StepTimes, iterations: int, epochs: int) -> None:
    each = [epoch_seconds(times, iterations_per_epoch=iterations, epoch=n).value for n in range(1, epochs + 1)]
    total_time = training_seconds(times, iterations_per_epoch=iterations, epochs=epochs)
    assert total_time.value == pytest.approx(times.init.value + sum(each))


@given(step_times, st.integers(1, 30), st.integers(1, 20), st.integers(1, 20), st.data())
def test_time_is_linear_in_the_number_of_epochs(
    times: StepTimes, iterations: int, few: int, more: int, data: st.DataObject
) -> None:
    many = few + more
    n = data.draw(st.integers(few, many))
    at = {k: training_seconds(times, iterations_per_epoch=iterations, epochs=k) for k in (few, n, many)}
    assert interpolate_epochs(n, few=(few, at[few]), many=(many, at[many])).value == pytest.approx(at[n].value)


@given(step_times, st.integers(1, 30))
def test_simulated_time_grows_with_epochs(times: StepTimes, iterations: int) -> None:
    (simulated,) = simulate_epochs({"m": times}, iterations_per_epoch=iterations, epochs=(5, 10, 20)).values()
    assert [time.value for time in simulated] == sorted(time.value for time in simulated)


def test_first_epoch_of_one_iteration_has_no_later_iteration() -> None:
    times = StepTimes(init=Interval.exactly(1), first=Interval.exactly(9), later=Interval.exactly(2))
    assert epoch_seconds(times, iterations_per_epoch=1, epoch=1).value == 9
    assert training_seconds(times, iterations_per_epoch=1, epochs=3).value == 1 + 9 + 2 + 2


def test_first_iteration_may_be_faster_than_the_others() -> None:
    times = StepTimes(init=Interval.exactly(0), first=Interval.exactly(0.1), later=Interval.exactly(1))
    assert training_seconds(times, iterations_per_epoch=10, epochs=1).value == pytest.approx(9.1)


@pytest.mark.parametrize("epochs", [0, -1])
def test_zero_epochs_are_refused(epochs: int) -> None:
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        training_phases(measured_times(make_profile()), iterations_per_epoch=23, epochs=epochs)


@pytest.mark.parametrize("iterations", [0, -3, math.nan])
def test_epoch_without_iterations_is_refused(iterations: float) -> None:
    with pytest.raises(ValueError, match="iterations_per_epoch must be at least 1"):
        training_phases(measured_times(make_profile()), iterations_per_epoch=iterations, epochs=1)


@pytest.mark.parametrize("jumped", [-0.2, math.nan])
def test_time_from_a_clock_that_was_set_back_is_refused(jumped: float) -> None:
    with pytest.raises(ValueError, match="the clock was set"):
        steady_iteration([0.1, jumped, 0.1])
    with pytest.raises(ValueError, match="the clock was set"):
        strategy_seconds([0.1, jumped], "second iteration")


def test_each_rejected_strategy_reads_one_time() -> None:
    measured = [9.0, *range(2, 30)]
    assert strategy_seconds(measured, "first iteration") == 9
    assert strategy_seconds(measured, "second iteration") == 2
    assert strategy_seconds(measured, "average iteration") == 6  # the mean of 2 to 10


def test_strategy_without_its_iteration_is_refused() -> None:
    with pytest.raises(ValueError, match="average iteration was not measured"):
        strategy_seconds([1.0], "average iteration")


def test_first_iteration_prefers_another_machine_than_the_training_time() -> None:
    """The reason why the strategy was rejected (table 5.6): a machine that starts slowly may run fast."""
    slow_start = [10.0, *[0.1] * 9]
    slow_run = [1.0, *[1.0] * 9]
    assert strategy_seconds(slow_run, "first iteration") < strategy_seconds(slow_start, "first iteration")

    def total_seconds(iterations: list[float]) -> float:
        times = StepTimes(
            init=Interval.exactly(0), first=Interval.exactly(iterations[0]), later=steady_iteration(iterations[1:])
        )
        return training_seconds(times, iterations_per_epoch=100, epochs=10).value

    assert total_seconds(slow_start) < total_seconds(slow_run)


def test_later_validation_without_a_first_is_refused() -> None:
    one = Interval.exactly(1.0)
    with pytest.raises(ValueError, match="later validation without a first"):
        StepTimes(init=one, first=one, later=one, later_validation=one)
