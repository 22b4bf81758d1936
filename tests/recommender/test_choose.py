import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_estimate, make_offer, make_vm_type
from trainfare.model.estimate import Estimate, MemoryFit
from trainfare.model.interval import Interval
from trainfare.model.offer import Market
from trainfare.model.plan import Goal
from trainfare.recommender.choose import (
    IdealPoint,
    Rejection,
    Rejections,
    best_of,
    best_per_machine,
    ideal_point,
    in_order,
    reject_ineligible,
    score,
    without_idle_copies,
)

CHEAPEST, FASTEST = Goal(kind="cheapest"), Goal(kind="fastest")


def listed(rejections: Rejections[Estimate]) -> dict[Rejection, tuple[Estimate, ...]]:
    return {code: tuple(found) for code, found in rejections.items()}


def weighted(w: float, confidence: float = 0.9) -> Goal:
    return Goal(kind="weighted", weight_time=w, confidence=confidence)


def estimate(
    name: str = "m",
    *,
    usd: float = 1.0,
    seconds: float = 3600.0,
    factor: float = 2.0,
    market: Market = "on_demand",
    needs_gib: float = 4.0,
    nodes: int = 1,
    batch_size: int = 64,
) -> Estimate:
    offer = make_offer(vm_type=make_vm_type(name=name), market=market)
    return make_estimate(
        candidate=make_candidate(offer=offer, nodes=nodes, batch_size=batch_size),
        usd=Interval.within_factor(usd, factor),
        seconds=Interval.within_factor(seconds, factor),
        memory=MemoryFit(needed_gib=Interval.exactly(needs_gib), available_gib=16),
    )


some_estimates = st.lists(
    st.builds(
        estimate,
        st.sampled_from("abcdef"),
        usd=st.floats(0.1, 10) | st.sampled_from([1.0, 2.0]),
        seconds=st.floats(1, 1e5) | st.sampled_from([60.0, 3600.0]),
        factor=st.floats(1, 4),
        nodes=st.integers(1, 4),
        batch_size=st.sampled_from([64, 128]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda e: e.candidate,
)
"""One estimate for each candidate."""


@given(some_estimates)
def test_the_first_is_the_best_and_is_not_dominated(estimates: list[Estimate]) -> None:
    """Compared with brute force: no other is at least as cheap and as fast, and better in one of them."""
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


@given(some_estimates, st.randoms(use_true_random=False), st.sampled_from([CHEAPEST, FASTEST, weighted(0.4)]))
def test_the_order_does_not_depend_on_the_order_of_the_offers(
    estimates: list[Estimate], random: object, goal: Goal
) -> None:
    shuffled = list(estimates)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    assert in_order(shuffled, goal) == in_order(estimates, goal)


def test_a_candidate_that_does_not_fit_is_rejected() -> None:
    small, large = estimate("small", usd=0.1, needs_gib=99), estimate("large")
    eligible, rejections = reject_ineligible([small, large], spot=False)
    assert eligible == (large,)
    assert listed(rejections) == {"does_not_fit": (small,)}


def test_spot_is_eligible_only_if_allowed() -> None:
    spot, steady = estimate(usd=0.3, market="spot"), estimate(usd=1.0)
    eligible, rejections = reject_ineligible([spot, steady], spot=False)
    assert eligible == (steady,)
    assert listed(rejections) == {"market_not_allowed": (spot,)}
    eligible, rejections = reject_ineligible([spot, steady], spot=True)
    assert eligible == (spot, steady)
    assert not rejections


def test_a_machine_is_listed_once_per_market() -> None:
    expensive, cheap, spot = estimate(usd=2.0), estimate(usd=1.0), estimate(usd=0.5, market="spot")
    assert best_per_machine(in_order([expensive, cheap, spot], CHEAPEST)) == (spot, cheap)


def test_a_machine_that_only_adds_idle_gpus_to_a_better_one_is_not_listed() -> None:
    def with_gpus(gpus: int, used: int | None = None, *, usd: float, provider: str = "aws") -> Estimate:
        vm_type = make_vm_type(name=f"{provider}{gpus}", provider=provider, gpus=gpus)
        candidate = make_candidate(offer=make_offer(vm_type=vm_type), gpus_used=used)
        return make_estimate(candidate=candidate, usd=Interval.within_factor(usd, 2))

    one, idle, all_four = with_gpus(1, usd=1), with_gpus(4, usd=4), with_gpus(4, 4, usd=4)
    elsewhere = with_gpus(8, usd=8, provider="gcp")
    ordered = in_order([one, idle, all_four, elsewhere], CHEAPEST)
    assert list(without_idle_copies(ordered)) == [one, all_four, elsewhere]


def test_a_machine_is_listed_once_whatever_its_nodes_and_batch_size() -> None:
    every = [
        estimate(usd=usd, nodes=nodes, batch_size=size)
        for usd, nodes, size in ((3.0, 1, 64), (2.0, 4, 64), (2.5, 1, 128))
    ]
    assert best_per_machine(in_order(every, CHEAPEST)) == (every[1],)


def test_weights_of_one_and_zero_are_exactly_fastest_and_cheapest() -> None:
    """Quotients of these times are equal in floats, the times are not."""
    close = [estimate("a", seconds=3600.0 + n * 2e-13 * 3600, usd=1.0 + n * 1e-13) for n in (3, 2, 1)]
    for w, goal in ((1.0, FASTEST), (0.0, CHEAPEST)):
        assert in_order(close, weighted(w)) == in_order(close, goal)


def test_the_weighted_sum_by_hand() -> None:
    """0.5·2 + 0.5·1 = 1.5 against 0.5·1 + 0.5·3 = 2, and 1.1 for the one in between."""
    cheap, fast = estimate("cheap", usd=1, seconds=200), estimate("fast", usd=3, seconds=100)
    between = estimate("between", usd=1.1, seconds=110)
    assert in_order([fast, cheap], weighted(0.5)) == (cheap, fast)
    assert in_order([fast, cheap, between], weighted(0.5))[0] is between
    assert score(between, 0.5, IdealPoint(seconds=100, usd=1)) == pytest.approx(1.1)


def test_a_machine_that_is_not_chosen_can_reverse_the_weighted_order_of_two_others() -> None:
    """The ideal point moves with the candidates."""
    a, b = estimate("a", usd=1, seconds=200), estimate("b", usd=2.1, seconds=100)
    slow_and_cheap = estimate("c", usd=0.5, seconds=10_000)
    expensive_and_fast = estimate("d", usd=1000, seconds=90)
    assert in_order([a, b], weighted(0.5))[0] is a
    assert in_order([a, b, estimate("e", usd=1000, seconds=50)], weighted(0.5))[0] is b
    assert in_order([a, b, slow_and_cheap, expensive_and_fast], weighted(0.5))[0] is a


def test_the_ideal_point_can_belong_to_more_candidates_than_those_in_order() -> None:
    a, b = estimate("a", usd=1, seconds=200), estimate("b", usd=2.1, seconds=100)
    assert best_of([a, b], weighted(0.5), ideal=IdealPoint(seconds=50, usd=1)) is b
    assert best_of([a, b], weighted(0.5)) is a


def test_no_estimates_have_no_best() -> None:
    assert in_order([], weighted(0.5)) == ()
    assert best_of([], CHEAPEST) is None


def test_ties_are_ordered_by_name_then_nodes_then_batch_size() -> None:
    a, b = estimate("a"), estimate("b")
    more, larger = estimate("a", nodes=2), estimate("a", batch_size=128)
    for goal in (CHEAPEST, FASTEST, weighted(0.3)):
        assert in_order([b, more, larger, a], goal) == (a, larger, more, b)


@given(some_estimates, st.floats(0, 1))
def test_the_best_is_the_first_in_order(estimates: list[Estimate], w: float) -> None:
    for goal in (CHEAPEST, FASTEST, weighted(w)):
        assert best_of(estimates, goal) == in_order(estimates, goal)[0]


@given(some_estimates)
def test_the_ideal_point_is_the_least_time_and_the_least_cost(estimates: list[Estimate]) -> None:
    ideal = ideal_point(estimates)
    assert ideal.seconds == in_order(estimates, FASTEST)[0].seconds.value
    assert ideal.usd == in_order(estimates, CHEAPEST)[0].usd.value
