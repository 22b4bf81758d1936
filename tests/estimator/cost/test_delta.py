import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.cost.delta import delta, excess, saving, spent, spent_to_target

positive = st.floats(1e-3, 1e6)


def test_delta_of_table_one() -> None:
    """87, 55 and 48 s an epoch at 0.45, 0.90 and 1.46 $ an hour, against one K80."""
    k80, two, p100 = spent(87, 0.45), spent(55, 0.90), spent(48, 1.46)
    assert delta(two, k80) == pytest.approx((87 / 55) / (0.01375 / 0.010875))
    assert delta(p100, k80) == pytest.approx(1.0126, abs=1e-4)
    assert delta(two, k80) > delta(p100, k80) > 1


@given(positive, positive)
def test_the_baseline_has_delta_one(seconds: float, price: float) -> None:
    assert delta(spent(seconds, price), spent(seconds, price)) == pytest.approx(1)


@given(positive, positive, positive, positive, st.floats(1, 1e4))
def test_delta_of_a_training_is_that_of_its_epochs(s: float, p: float, s0: float, p0: float, epochs: float) -> None:
    one, baseline = spent(s, p), spent(s0, p0)
    whole = delta(spent_to_target(one, epochs=epochs), spent_to_target(baseline, epochs=epochs))
    assert whole == pytest.approx(delta(one, baseline))


@given(positive, positive, positive)
def test_twice_as_fast_at_twice_the_price_is_worth_two(seconds: float, price: float, factor: float) -> None:
    """Linear scaling costs nothing more, so the speed-up is all gain."""
    assert delta(spent(seconds / factor, price * factor), spent(seconds, price)) == pytest.approx(factor)


def test_excess_and_saving_by_hand() -> None:
    assert excess(94, 25) == pytest.approx(2.76)
    assert saving(0.5, 2.0) == 0.75
