import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_vm_type
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal
from trainfare.recommender.choose import IdealPoint, ideal_point, score
from trainfare.recommender.ranking_confidence import is_ranking_certain, ranking_confidence

CHEAPEST, FASTEST = Goal(kind="cheapest"), Goal(kind="fastest")
Z = 1.6448536269514722


def of(gpu: str, *, usd: float, factor: float = 2.0, seconds: float = 3600.0, **changes: object) -> Estimate:
    vm_type = make_vm_type(name=f"with-{gpu}", gpu=make_gpu(name=gpu))
    return make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=vm_type)),
        usd=Interval.within_factor(usd, factor),
        seconds=Interval.within_factor(seconds, factor),
        **changes,
    )


def sure(a: Estimate, b: Estimate, goal: Goal = CHEAPEST) -> float:
    return ranking_confidence(a, b, goal, ideal=ideal_point([a, b]))


def test_the_confidence_by_hand() -> None:
    """d = ln 1.5, σ = ln 2 / 1.645 each, s = √2·σ: Φ(0.68) = 75%."""
    assert sure(of("A", usd=1), of("B", usd=1.5)) == pytest.approx(0.752, abs=0.001)


@given(
    st.floats(0.2, 5),
    st.floats(1.01, 3),
    st.floats(1.01, 3),
    st.sampled_from([CHEAPEST, FASTEST, Goal(kind="weighted", weight_time=0.3)]),
)
def test_the_order_of_the_two_does_not_matter(usd: float, fa: float, fb: float, goal: Goal) -> None:
    a, b = of("A", usd=1, factor=fa), of("B", usd=usd, factor=fb, seconds=2000.0)
    assert sure(a, b, goal) == sure(b, a, goal) >= 0.5


@given(st.floats(1.01, 4), st.floats(1.01, 4), st.floats(1, 2))
def test_wider_intervals_never_raise_the_confidence(ratio: float, factor: float, wider: float) -> None:
    a, b = of("A", usd=1, factor=factor), of("B", usd=ratio)
    assert sure(of("A", usd=1, factor=factor * wider), b) <= sure(a, b)


@given(st.floats(1.01, 4), st.floats(1, 2))
def test_a_larger_difference_never_lowers_the_confidence(ratio: float, more: float) -> None:
    assert sure(of("A", usd=1), of("B", usd=ratio * more)) >= sure(of("A", usd=1), of("B", usd=ratio))


@pytest.mark.parametrize("ratio", [1.05, 1.5, 3.0])
def test_the_ranking_is_right_as_often_as_stated(ratio: float) -> None:
    """Simulated: two costs whose logarithms have independent errors, with different intervals."""
    a, b = of("A", usd=1, factor=1.3), of("B", usd=ratio, factor=2.5)
    draw = random.Random(7).gauss
    n, right = 40_000, 0
    for _ in range(n):
        one = math.exp(draw(0, math.log(1.3) / Z))
        right += one < ratio * math.exp(draw(0, math.log(2.5) / Z))
    assert sure(a, b) == pytest.approx(right / n, abs=0.01)


def test_a_cent_is_enough_to_rank_two_prices_of_one_prediction() -> None:
    a, b = of("A", usd=1.00), of("A", usd=1.01)
    assert sure(a, b) == 1
    assert is_ranking_certain(a, b, CHEAPEST, ideal=ideal_point([a, b]))


def at(estimate: Estimate, **changes: object) -> Estimate:
    return replace(estimate, candidate=replace(estimate.candidate, **changes))  # type: ignore[arg-type] # fields by name, of several types


@pytest.mark.parametrize(
    "other",
    [
        at(of("A", usd=1.01), batch_size=128),
        at(of("A", usd=1.01), nodes=2),
        of("A", usd=1.01, basis="scaled"),
        of("A", usd=1.01, profile_id="another"),
    ],
    ids=["batch", "nodes", "basis", "profile"],
)
def test_other_predictions_for_the_same_gpu_have_independent_errors(other: Estimate) -> None:
    assert sure(of("A", usd=1.00), other) < 0.6


def test_measured_times_share_errors_only_on_one_machine_type() -> None:
    a, b = of("A", usd=1.00, basis="measured"), of("A", usd=1.01, basis="measured")
    assert sure(a, b) == 1
    elsewhere = make_offer(vm_type=make_vm_type(name="other", gpu=make_gpu(name="A")))
    assert sure(a, at(b, offer=elsewhere)) < 0.6


def in_parts(usd: float, *, provider: str = "aws", rework: float = 0.0, boot: float = 0.0) -> Estimate:
    """An hour within a factor of 2, plus parts whose errors are as large as themselves."""
    vm_type = make_vm_type(provider=provider)
    phases = [Phase(name="steady iterations", seconds=Interval.within_factor(3600, 2))]
    for name, size in (("boot", boot), ("spot rework", rework)):
        phases.append(Phase(name=name, seconds=Interval(value=size, low=0, high=2 * size)))  # type: ignore[arg-type] # a name that mypy cannot narrow
    seconds = Interval.within_factor(3600 + rework + boot, 2)
    return make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=vm_type)),
        phases=tuple(phases),
        seconds=seconds,
        usd=Interval.within_factor(usd, 2),
    )


def test_errors_of_interruptions_are_never_shared() -> None:
    assert sure(in_parts(1.00, rework=1800), in_parts(1.01, rework=1800)) < 0.6
    assert sure(in_parts(1.00, rework=18), in_parts(1.10, rework=18)) > 0.9


def test_errors_of_the_boot_are_shared_within_a_provider() -> None:
    assert sure(in_parts(1.00, boot=1800), in_parts(1.01, boot=1800)) == 1
    assert sure(in_parts(1.00, boot=1800), in_parts(1.01, boot=1800, provider="gcp")) < 0.6


def test_a_shared_error_counts_if_one_estimate_has_more_of_it() -> None:
    """The same GPU, but one takes an hour to start: a slow program lengthens the other one by more."""
    steady, starting = in_parts(1.0), in_parts(1.05)
    starting = replace(starting, usd=Interval.within_factor(1.05, 1.4), seconds=Interval.within_factor(3600, 1.4))
    assert 0.5 < sure(steady, starting) < 0.7


def test_exact_numbers_are_certain_and_equal_ones_even() -> None:
    assert sure(of("A", usd=1, factor=1), of("B", usd=1.0001, factor=1)) == 1
    assert sure(of("A", usd=1, factor=1), of("B", usd=1, factor=1)) == 0.5
    nothing_known = replace(of("B", usd=1.5), usd=Interval(value=1.5, low=0, high=3))
    assert sure(of("A", usd=1), nothing_known) == 0.5


def test_the_goal_decides_what_is_compared() -> None:
    slow, dear = of("A", usd=1, seconds=36_000), of("B", usd=1.1, seconds=3600)
    assert sure(slow, dear, CHEAPEST) < 0.6
    assert sure(slow, dear, FASTEST) > 0.99
    least = IdealPoint(seconds=3600, usd=1)
    halves = Goal(kind="weighted", weight_time=0.5)
    assert score(dear, 0.5, least) < score(slow, 0.5, least)
    assert sure(slow, dear, halves) > 0.99


def test_three_times_the_cost_is_a_certain_ranking_though_the_intervals_overlap() -> None:
    a, b = of("A", usd=1), of("B", usd=3)
    assert a.usd.overlaps(b.usd)
    assert is_ranking_certain(a, b, CHEAPEST, ideal=ideal_point([a, b]))
    assert not is_ranking_certain(a, b, CHEAPEST, confidence=0.99, ideal=ideal_point([a, b]))
