import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.cost.delta import delta, relative_excess, time_and_cost, to_target

positive = st.floats(1e-3, 1e6)


def test_delta_of_table_one() -> None:
    """87, 55 and 48 s an epoch at $0.45, $0.90 and $1.46 an hour, relative to one K80."""
    k80, two, p100 = time_and_cost(87, 0.45), time_and_cost(55, 0.90), time_and_cost(48, 1.46)
    assert delta(two, k80) == pytest.approx((87 / 55) / (0.01375 / 0.010875))
    assert delta(p100, k80) == pytest.approx(1.0126, abs=1e-4)
    assert delta(two, k80) > delta(p100, k80) > 1


@given(positive, positive)
def test_baseline_has_delta_one(seconds: float, price: float) -> None:
    assert delta(time_and_cost(seconds, price), time_and_cost(seconds, price)) == pytest.approx(1)


@given(positive, positive, positive, positive, st.floats(1, 1e4))
def test_delta_of_a_training_is_that_of_its_epochs(s: float, p: float, s0: float, p0: float, epochs: float) -> None:
    one, baseline = time_and_cost(s, p), time_and_cost(s0, p0)
    training = delta(to_target(one, epochs=epochs), to_target(baseline, epochs=epochs))
    assert training == pytest.approx(delta(one, baseline))


@given(positive, positive, positive)
def test_delta_of_linear_scaling_is_the_speed_up(seconds: float, price: float, factor: float) -> None:
    """Twice as fast at twice the price costs the same."""
    assert delta(time_and_cost(seconds / factor, price * factor), time_and_cost(seconds, price)) == pytest.approx(
        factor
    )


def test_relative_excess_by_hand() -> None:
    assert relative_excess(94, 25) == pytest.approx(2.76)
