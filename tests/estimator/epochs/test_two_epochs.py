import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from trainfare.errors import UsageError
from trainfare.estimator.epochs.two_epochs import (
    EpochTimes,
    cheapest,
    configurations,
    cost_usd,
    epoch_times,
    epochs_by_batch_size,
    epochs_until_stable,
    fastest,
    method_costs,
    training_seconds,
)
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Profile

seconds = st.floats(1e-3, 1e4)
exact = seconds.map(Interval.exactly)
times = st.builds(EpochTimes, init=exact, first=exact, later=exact)

PRICES = {"aws/slow": 1.0, "aws/fast": 3.0}


def epochs_of(
    machine: str, batch_size: int | None, *curve: float | None, init: float = 1.0, **changes: object
) -> Profile:
    """A profile whose epochs took these seconds."""
    return make_profile(
        host=Host(name="there", vm_type=machine),
        micro_batch_size=batch_size,
        init_seconds=init,
        curve=tuple(Epoch(number=number, seconds=each) for number, each in enumerate(curve, start=1)),
        **changes,
    )


STABLE = (
    epochs_of("aws/slow", 64, 40, 30, 30, 30),
    epochs_of("aws/slow", 128, 30, 20, 20, 20, 20, 20, 20, 20),
)
SHORT = (epochs_of("aws/fast", 64, 20, 9), epochs_of("aws/fast", 128, 18, 4))


@given(times, st.integers(1, 300))
def test_equation_5_1_equals_the_sum_over_epochs(each: EpochTimes, epochs: int) -> None:
    clock = each.init.value + sum((each.first if epoch == 0 else each.later).value for epoch in range(epochs))
    assert training_seconds(each, epochs=epochs).value == pytest.approx(clock)


@given(times, st.floats(1, 300), st.floats(1, 300))
def test_more_epochs_never_take_less_time(each: EpochTimes, a: float, b: float) -> None:
    few, many = sorted((a, b))
    assert training_seconds(each, epochs=few).value <= training_seconds(each, epochs=many).value


@given(st.lists(exact, min_size=1, max_size=5), st.floats(0.1, 50), st.integers(1, 5))
def test_cost_is_price_times_time_times_runs(times: list[Interval], price: float, runs: int) -> None:
    total = sum(each.value for each in times)
    assert cost_usd(times, usd_per_hour=price, runs=runs).value == pytest.approx(price * total / 3600 * runs)


@pytest.mark.parametrize("epochs", [0, -1, 0.5, float("nan")])
def test_less_than_an_epoch_is_refused(epochs: float) -> None:
    one = Interval.exactly(1.0)
    with pytest.raises(ValueError, match="epochs must be at least 1"):
        training_seconds(EpochTimes(init=one, first=one, later=one), epochs=epochs)


def test_epoch_times_are_the_first_epoch_and_the_median_of_the_others() -> None:
    found = epoch_times(epochs_of("aws/slow", 64, 40, 30, 31, 99, init=2.5))
    assert (found.init.value, found.first.value, found.later.value) == (2.5, 40, 31)


@pytest.mark.parametrize("curve", [(), (40,), (None, 30)])
def test_profile_without_two_epochs_is_refused_with_a_remedy(curve: tuple[float | None, ...]) -> None:
    with pytest.raises(UsageError, match="the first two are needed") as raised:
        epoch_times(epochs_of("aws/slow", 64, *curve))
    (remedy,) = raised.value.remedies
    assert (remedy.command, remedy.arguments) == ("profile", {"epochs": 2})


def test_epoch_without_an_end_does_not_count() -> None:
    assert epochs_until_stable(epochs_of("aws/slow", 64, 40, 30, None)) == 2


def test_first_epoch_may_be_faster_than_the_others() -> None:
    assert epoch_times(epochs_of("aws/slow", 64, 10, 30)).first.value == pytest.approx(10)


def test_repeated_profiles_of_one_configuration_are_one_configuration() -> None:
    again = epochs_of("aws/fast", 64, 20, 9)
    assert len(configurations(STABLE, (*SHORT, again), PRICES)) == len(configurations(STABLE, SHORT, PRICES))


def test_repeated_runs_give_the_mean_number_of_epochs() -> None:
    again = epochs_of("aws/slow", 64, 40, 30, 30, 30, 30)
    assert epochs_by_batch_size((*STABLE, again)) == {64: 4.5, 128: 8}


def test_configurations_cover_every_machine_at_every_batch_size() -> None:
    found = configurations(STABLE, SHORT, PRICES)
    by_name = {(c.machine, c.batch_size): c for c in found}
    assert by_name["aws/slow", 64].seconds.value == pytest.approx(1 + 40 + 3 * 30)
    assert by_name["aws/slow", 128].seconds.value == pytest.approx(1 + 30 + 7 * 20)
    assert by_name["aws/fast", 64].seconds.value == pytest.approx(1 + 20 + 3 * 9)
    assert by_name["aws/fast", 128].seconds.value == pytest.approx(1 + 18 + 7 * 4)
    for each in found:
        assert each.usd.value == pytest.approx(each.seconds.value * PRICES[each.machine] / 3600)
    assert fastest(found) == by_name["aws/fast", 128]
    assert cheapest(found) == by_name["aws/slow", 64] == found[0]


def test_given_epochs_replace_those_of_the_stable_runs() -> None:
    found = configurations(STABLE, SHORT, PRICES, epochs={64: 2, 128: 3})
    assert {c.batch_size: c.epochs for c in found} == {64: 2, 128: 3}


def test_batch_size_that_was_never_trained_until_stable_is_refused_with_a_remedy() -> None:
    with pytest.raises(UsageError, match=r"batch size 256 is not known.*64, 128") as raised:
        configurations(STABLE, (epochs_of("aws/fast", 256, 20, 9),), PRICES)
    (remedy,) = raised.value.remedies
    assert (remedy.command, remedy.arguments) == ("profile", {"until_stable": True})


def test_machine_without_a_price_is_refused() -> None:
    with pytest.raises(UsageError, match="no price of aws/fast"):
        configurations(STABLE, SHORT, {"aws/slow": 1.0})


def test_profile_without_a_batch_size_is_refused() -> None:
    with pytest.raises(UsageError, match="has no batch size"):
        configurations((epochs_of("aws/slow", None, 40, 30),), (), PRICES)


def test_epochs_are_compared_by_effective_batch_size() -> None:
    stable = (epochs_of("aws/slow", 32, 40, 30, accumulation_steps=2),)
    assert epochs_by_batch_size(stable) == {64: 2}


def test_cost_of_each_method_by_hand() -> None:
    slow, fast = method_costs(STABLE, SHORT, PRICES)
    complete_runs = (1 + 40 + 90) + (1 + 30 + 140)
    assert slow.exhaustive_usd.value == slow.epochs_usd.value == pytest.approx(complete_runs / 3600)
    assert fast.exhaustive_usd.value == pytest.approx(3 * ((1 + 20 + 27) + (1 + 18 + 28)) / 3600)
    assert fast.epochs_usd.value == pytest.approx(3 * ((1 + 20 + 9) + (1 + 18 + 4)) / 3600)
    # init 1 s, first iteration 1.0 s, second 0.1 s: the maker's
    assert fast.iterations_usd.value == pytest.approx(3 * 2 * (1 + 1.1) / 3600)


def test_fewer_iterations_make_a_method_cheaper() -> None:
    for cost in method_costs(STABLE, SHORT, PRICES):
        assert cost.iterations_usd.value < cost.epochs_usd.value <= cost.exhaustive_usd.value
