import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.errors import Infeasible
from trainfare.model.estimate import Estimate, MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.offer import Market
from trainfare.model.plan import Goal
from trainfare.recommender.choose import choosable, in_order, one_a_machine

CHEAPEST, FASTEST = Goal(kind="cheapest"), Goal(kind="fastest")


def estimate(
    name: str = "m", *, usd: float = 1.0, seconds: float = 3600.0, market: Market = "on_demand", needs_gib: float = 4.0
) -> Estimate:
    offer = make_offer(vm_type=make_vm_type(name=name), market=market)
    return make_estimate(
        candidate=make_candidate(offer=offer),
        usd=Interval.within_factor(usd, 2),
        seconds=Interval.within_factor(seconds, 2),
        memory=MemoryFit(needed_gib=Interval.exactly(needs_gib), available_gib=16),
    )


some_estimates = st.lists(
    st.builds(estimate, st.sampled_from("abcdef"), usd=st.floats(0.1, 10), seconds=st.floats(1, 1e5)),
    min_size=1,
    max_size=12,
)


@given(some_estimates)
def test_the_first_is_the_best_and_is_not_dominated(estimates: list[Estimate]) -> None:
    """Against brute force: no other is at least as cheap and as fast, and better in one of them."""
    for goal in (CHEAPEST, FASTEST):
        first = in_order(estimates, goal)[0]
        for other in estimates:
            assert not (
                other.usd.value <= first.usd.value
                and other.seconds.value <= first.seconds.value
                and (other.usd.value, other.seconds.value) != (first.usd.value, first.seconds.value)
            )
    assert in_order(estimates, CHEAPEST)[0].usd.value == min(e.usd.value for e in estimates)
    assert in_order(estimates, FASTEST)[0].seconds.value == min(e.seconds.value for e in estimates)


@given(some_estimates, some_estimates)
def test_more_offers_never_make_the_best_worse(estimates: list[Estimate], more: list[Estimate]) -> None:
    assert in_order([*estimates, *more], CHEAPEST)[0].usd.value <= in_order(estimates, CHEAPEST)[0].usd.value


@given(some_estimates, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_offers(estimates: list[Estimate], random: object) -> None:
    shuffled = list(estimates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert [(e.usd, e.seconds) for e in in_order(shuffled, CHEAPEST)] == [
        (e.usd, e.seconds) for e in in_order(estimates, CHEAPEST)
    ]


def test_what_does_not_fit_is_never_chosen() -> None:
    small, large = estimate("small", usd=0.1, needs_gib=99), estimate("large")
    assert choosable([small, large], spot=False) == (large,)


def test_spot_is_chosen_only_when_allowed() -> None:
    spot, steady = estimate(usd=0.3, market="spot"), estimate(usd=1.0)
    assert choosable([spot, steady], spot=False) == (steady,)
    assert choosable([spot, steady], spot=True) == (spot, steady)


def test_when_nothing_fits_the_answer_says_how_much_is_needed() -> None:
    with pytest.raises(Infeasible, match=r"needs about 99 GiB.*largest GPU has 16 GiB"):
        choosable([estimate(needs_gib=99)], spot=False)


def test_when_nothing_is_left_the_answer_says_what_to_do() -> None:
    with pytest.raises(Infeasible, match="no-operations"):
        choosable([], spot=False)


def test_a_machine_is_listed_once_a_market() -> None:
    dear, cheap, spot = estimate(usd=2.0), estimate(usd=1.0), estimate(usd=0.5, market="spot")
    assert one_a_machine(in_order([dear, cheap, spot], CHEAPEST)) == (spot, cheap)
