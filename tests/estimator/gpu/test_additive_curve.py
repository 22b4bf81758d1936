"""Sums of smooth curves: bounded, and fair between families."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.gpu.additive_curve import AdditiveCurve, CurvePrior, curve_value, fit_curve

X = np.linspace(-1, 1, 40)[:, None]


def fitted(y: np.ndarray, **prior: float) -> AdditiveCurve:
    names = [f"p{i}" for i in range(len(y))]
    return fit_curve(X, y, np.ones(len(y)), names, names, CurvePrior(**prior))


def test_fit_finds_a_smooth_function() -> None:
    curve = fitted(0.3 * np.sin(2 * X[:, 0]), program=0.01, family=0.01)
    assert curve_value(curve, [0.5]) == pytest.approx(0.3 * np.sin(1.0), abs=0.03)


@given(st.floats(-1e6, 1e6))
def test_curve_is_constant_outside_its_data(x: float) -> None:
    curve = fitted(X[:, 0])
    ends = sorted((curve_value(curve, [-1.0]), curve_value(curve, [1.0])))
    assert ends[0] - 0.2 <= curve_value(curve, [x]) <= ends[1] + 0.2
    if abs(x) > 1:
        assert curve_value(curve, [x]) == curve_value(curve, [np.sign(x)])


def test_curve_without_rows_is_zero() -> None:
    curve = fit_curve(np.zeros((0, 2)), np.zeros(0), np.zeros(0), [], [], CurvePrior())
    assert curve_value(curve, [3.0, -2.0]) == 0.0


def test_many_rows_of_one_family_count_little_more_than_one() -> None:
    """Nineteen rows of one family say 1, one row of each of four others says 0: the curve is nearer to 0."""
    x = np.zeros((23, 1))
    y = np.array([1.0] * 19 + [0.0] * 4)
    families = ["large"] * 19 + ["a", "b", "c", "d"]
    curve = fit_curve(x, y, np.ones(23), families, families, CurvePrior(constant=10.0, family=1.0))
    assert curve_value(curve, [0.0]) == pytest.approx(0.2, abs=0.05)


def test_heavier_row_pulls_more() -> None:
    x, y = np.zeros((2, 1)), np.array([0.0, 1.0])
    even, uneven = (
        curve_value(fit_curve(x, y, np.array([1.0, w]), ["a", "b"], ["a", "b"], CurvePrior(row=1.0)), [0.0])
        for w in (1.0, 10.0)
    )
    assert uneven > even


def test_curve_ignores_features_that_are_newer_than_it() -> None:
    curve = fitted(X[:, 0])
    assert curve_value(curve, [0.5, 7.0]) == curve_value(curve, [0.5])
    with pytest.raises(ValueError, match="only 0"):
        curve_value(curve, [])
