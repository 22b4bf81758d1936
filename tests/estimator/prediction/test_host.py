"""The host's part of a training on a machine that was not measured."""

import pytest

from tests.estimator.prediction.test_predictor import on_gpu
from trainfare.estimator.prediction.host import HOST_FACTOR, host_times, times_on_other_host, with_data_wait
from trainfare.estimator.prediction.iteration import PredictedIteration
from trainfare.estimator.step.measured import StepTimes
from trainfare.model.interval import Interval

LATER = Interval(value=0.2, low=0.1, high=0.3)
ITERATION = PredictedIteration(seconds=LATER, basis="scaled", profile=on_gpu(), limited_by="compute")
MEASURED = StepTimes(
    init=Interval.exactly(4.0),
    first=Interval.exactly(1.5),
    later=Interval.exactly(0.5),
    first_validation=Interval.exactly(3.0),
    later_validation=Interval.exactly(2.0),
)


def test_no_wait_changes_nothing() -> None:
    assert with_data_wait(ITERATION, Interval.exactly(0.0)) is ITERATION


def test_wait_is_added_with_its_interval() -> None:
    found = with_data_wait(ITERATION, Interval(value=0.04, low=0.01, high=0.1))
    assert found.seconds.value == pytest.approx(0.24)
    assert found.seconds.low == pytest.approx(0.11)
    assert found.seconds.high == pytest.approx(0.4)
    assert (found.limited_by, found.parts[-1].seconds) == ("compute", 0.04)


def test_iteration_is_limited_by_data_if_it_waits_longer_than_it_computes() -> None:
    assert with_data_wait(ITERATION, Interval.exactly(0.21)).limited_by == "data"


def test_host_work_is_carried_over_within_the_host_factor() -> None:
    times = times_on_other_host(MEASURED, host_times(MEASURED), LATER, validation_ratio=0.5)
    assert times.init == Interval.within_factor(4.0, HOST_FACTOR)
    assert times.first == LATER + Interval.within_factor(1.0, HOST_FACTOR)
    assert times.later == LATER


def test_validation_scales_with_the_relative_error_of_the_iteration() -> None:
    times = times_on_other_host(MEASURED, host_times(MEASURED), LATER, validation_ratio=0.5)
    assert times.first_validation is not None
    assert times.later_validation is not None
    assert (times.first_validation.low, times.first_validation.high) == pytest.approx((0.75, 2.25))
    assert times.later_validation.value == 1.0


def test_first_iteration_faster_than_later_ones_has_no_extra_time() -> None:
    fast_start = StepTimes(init=MEASURED.init, first=Interval.exactly(0.1), later=MEASURED.later)
    times = times_on_other_host(fast_start, host_times(fast_start), LATER, validation_ratio=1.0)
    assert times.first == LATER
    assert times.first_validation is None
