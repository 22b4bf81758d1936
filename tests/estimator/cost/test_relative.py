import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfare.estimator.cost.relative import ratio, relative_cost, relative_saving, relative_to_best, speedup
from trainfare.model.interval import Interval

intervals = st.builds(Interval.within_factor, st.floats(1e-3, 1e6), st.floats(1.0, 3.0))
machines = st.dictionaries(st.sampled_from("abcdef"), intervals, min_size=1)


@given(machines)
def test_best_machine_has_one_and_no_machine_has_less(values: dict[str, Interval]) -> None:
    relative = relative_to_best(values)
    assert min(each.value for each in relative.values()) == 1
    assert {machine for machine, each in relative.items() if each.value == 1} >= {
        min(values, key=lambda m: values[m].value)
    }


@given(machines, st.floats(1e-3, 1e3))
def test_relative_cost_may_start_from_relative_times(values: dict[str, Interval], price: float) -> None:
    prices = {machine: price * (1 + place) for place, machine in enumerate(values)}
    direct, twice = relative_cost(values, prices), relative_cost(relative_to_best(values), prices)
    assert {m: each.value for m, each in direct.items()} == pytest.approx({m: each.value for m, each in twice.items()})


@given(machines)
def test_cost_is_price_times_time(values: dict[str, Interval]) -> None:
    prices = {machine: 0.9 * (1 + place) for place, machine in enumerate(values)}
    costs = relative_cost(values, prices)
    cheapest = min(values[machine].value * prices[machine] for machine in values)
    for machine, cost in costs.items():
        assert cost.value * cheapest == pytest.approx(values[machine].value * prices[machine])


@given(intervals, intervals)
def test_ratio_covers_the_ratio_of_all_values_of_its_parts(a: Interval, b: Interval) -> None:
    found = ratio(a, b)
    for above in (a.low, a.value, a.high):
        for below in (b.low, b.value, b.high):
            assert found.low <= above / below <= found.high or above / below == pytest.approx(found.value)


@given(intervals, intervals)
def test_speed_up_of_a_faster_machine_is_above_one(baseline: Interval, here: Interval) -> None:
    assert (speedup(baseline, here).value > 1) == (here.value < baseline.value)


def test_divisor_that_includes_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="must not include zero"):
        ratio(Interval.exactly(1.0), Interval(value=1.0, low=0.0, high=2.0))


def test_empty_comparison_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one machine"):
        relative_to_best({})


def test_machine_without_a_price_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no price of p2\.xlarge"):
        relative_cost({"p2.xlarge": Interval.exactly(1.0)}, {})


def test_saving_is_a_share_of_the_other_cost() -> None:
    assert relative_saving(0.5, 2.0) == 0.75
    assert relative_saving(8.0, 2.0) == -3
    with pytest.raises(ValueError, match="must be positive"):
        relative_saving(1.0, 0.0)
