import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.cost.relative import by_best, by_best_cost, ratio, speedup
from trainfare.model.interval import Interval

intervals = st.builds(Interval.within_factor, st.floats(1e-3, 1e6), st.floats(1.0, 3.0))
machines = st.dictionaries(st.sampled_from("abcdef"), intervals, min_size=1)


@given(machines)
def test_the_best_has_one_and_nobody_less(values: dict[str, Interval]) -> None:
    relative = by_best(values)
    assert min(each.value for each in relative.values()) == 1
    assert {machine for machine, each in relative.items() if each.value == 1} >= {
        min(values, key=lambda m: values[m].value)
    }


@given(machines, st.floats(1e-3, 1e3))
def test_relative_cost_may_start_from_relative_times(values: dict[str, Interval], price: float) -> None:
    prices = {machine: price * (1 + place) for place, machine in enumerate(values)}
    direct, twice = by_best_cost(values, prices), by_best_cost(by_best(values), prices)
    assert {m: each.value for m, each in direct.items()} == pytest.approx({m: each.value for m, each in twice.items()})


@given(machines)
def test_cost_is_price_times_time(values: dict[str, Interval]) -> None:
    prices = {machine: 0.9 * (1 + place) for place, machine in enumerate(values)}
    costs = by_best_cost(values, prices)
    cheapest = min(values[machine].value * prices[machine] for machine in values)
    for machine, cost in costs.items():
        assert cost.value * cheapest == pytest.approx(values[machine].value * prices[machine])


@given(intervals, intervals)
def test_a_ratio_holds_every_ratio_of_what_its_parts_hold(a: Interval, b: Interval) -> None:
    found = ratio(a, b)
    for above in (a.low, a.value, a.high):
        for below in (b.low, b.value, b.high):
            assert found.low <= above / below <= found.high or above / below == pytest.approx(found.value)


@given(intervals, intervals)
def test_speed_up_is_above_one_where_it_is_faster(baseline: Interval, here: Interval) -> None:
    assert (speedup(baseline, here).value > 1) == (here.value < baseline.value)


def test_a_time_that_may_be_zero_divides_nothing() -> None:
    with pytest.raises(ValueError, match="may be zero"):
        ratio(Interval.exactly(1.0), Interval(value=1.0, low=0.0, high=2.0))


def test_there_is_no_best_of_nothing() -> None:
    with pytest.raises(ValueError, match="no best of nothing"):
        by_best({})


def test_a_machine_without_a_price_is_named() -> None:
    with pytest.raises(ValueError, match=r"no price of p2\.xlarge"):
        by_best_cost({"p2.xlarge": Interval.exactly(1.0)}, {})
