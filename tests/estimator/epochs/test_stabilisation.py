import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.epochs.stabilisation import median_window, patience_epoch, running_median, settled_epoch

curves = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=80)


def test_curve_settles_where_2_percent_of_its_improvement_remain() -> None:
    """1/2^k from 1 on falls by 0.5^k: after six halvings 1.6% of the improvement remains."""
    values = [0.5**k for k in range(12)]
    assert settled_epoch(values, higher=False) == 7


def test_one_outlier_does_not_settle_a_long_run() -> None:
    steady = [1 - 0.01 * k for k in range(60)]
    with_outlier = [*steady[:10], 0.41, *steady[11:]]
    assert settled_epoch(with_outlier, higher=False) == settled_epoch(steady, higher=False)


def test_epochs_after_the_best_do_not_count() -> None:
    assert settled_epoch([3.0, 2.0, 1.0, 1.5, 2.0, 2.5], higher=False) == 3


def test_flat_curve_settled_in_its_first_epoch() -> None:
    assert settled_epoch([0.5] * 30, higher=True) == 1


@given(curves, st.booleans())
def test_settled_epoch_is_one_of_the_run(values: list[float], higher: bool) -> None:
    assert 1 <= settled_epoch(values, higher=higher) <= len(values)


@given(curves, st.sampled_from([2.0**k for k in range(-8, 9)]), st.booleans())
def test_unit_of_the_values_does_not_change_the_epoch(values: list[float], unit: float, higher: bool) -> None:
    scaled = [value * unit for value in values]
    assert settled_epoch(scaled, higher=higher) == settled_epoch(values, higher=higher)
    assert patience_epoch(scaled, higher=higher) == patience_epoch(values, higher=higher)


@given(curves)
def test_negated_metric_settles_in_the_same_epoch(values: list[float]) -> None:
    assert settled_epoch(values, higher=False) == settled_epoch([-value for value in values], higher=True)


def test_patience_stops_five_epochs_after_the_best() -> None:
    assert patience_epoch([3.0, 2.0, 1.0, 1.1, 1.1, 1.1, 1.1, 1.1, 0.1], higher=False) == 8


def test_patience_does_not_stop_an_improving_run() -> None:
    assert patience_epoch([1 / k for k in range(1, 50)], higher=False) is None


def test_patience_stops_on_the_plateau_before_a_drop_and_the_settled_epoch_does_not() -> None:
    plateau = [0.5 + 0.2 * (1 - math.exp(-k / 3)) + 0.03 * (k == 12) for k in range(30)]
    steps = [*plateau, *[0.9 + 0.001 * (k % 2) for k in range(30)]]
    stopped = patience_epoch(steps, higher=True)
    assert stopped is not None
    assert stopped < 30 < settled_epoch(steps, higher=True)


def test_window_is_odd_and_5_percent_of_the_run() -> None:
    assert [median_window(run) for run in (1, 10, 50, 100, 200)] == [1, 1, 3, 5, 11]


def test_running_median_is_centred() -> None:
    assert running_median([1.0, 9.0, 2.0, 3.0], 3) == [5.0, 2.0, 3.0, 2.5]


def test_empty_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        settled_epoch([], higher=True)
