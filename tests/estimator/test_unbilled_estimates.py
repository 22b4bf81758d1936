"""Estimates without bills, of which there are thousands, agree with complete ones, and their intervals add up."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.makers import make_candidate, make_gpu, make_offer, make_profile, make_vm_type, shipped_coefficients
from trainfare.estimator.cost.bill import Charges
from trainfare.estimator.estimate import estimate_all, estimate_unbilled
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.bill import Billing, Interruptions, Overheads, Terms
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Candidate, Commitment, Market, Offer
from trainfare.model.profile import Profile

T4 = make_gpu()
A100 = make_gpu(name="A100", fp32_tflops=19.5, memory_gb_per_second=1555.0, memory_gib=40.0)
MARKETS: tuple[Market, ...] = ("own", "on_demand", "spot", "reserved")
ITERATIONS = 23
INDEPENDENT = ("boot", "setup", "spot rework")
"""Phases with independent errors."""


def terms(offer: Offer) -> Terms:
    return Terms(
        provider=offer.vm_type.provider,
        billing=Billing(increment_seconds=1.0 if offer.vm_type.provider == "aws" else 60.0, minimum_seconds=60.0),
        boot_seconds=Interval.exactly(0.0) if offer.market == "own" else Interval.within_factor(90.0, 2.5),
        disk_usd_per_gib_month=0.08,
        egress_usd_per_gib=0.09,
        free_egress_gib=1.0,
    )


def interruptions(offer: Offer) -> Interruptions:
    rate = 0.3 * max(1, offer.vm_type.gpus) if offer.region == "us-east-1" else 1.7
    return Interruptions(per_hour=Interval.within_factor(rate, 3), source="a test")


def offers() -> list[Offer]:
    found = []
    for provider, gpu, gpus in (("aws", T4, 1), ("aws", A100, 4), ("gcp", A100, 2)):
        vm_type = make_vm_type(
            provider=provider, name=f"with-{gpus}-{gpu.name}", gpu=gpu, gpus=gpus, network_gb_per_second=3.0 * gpus
        )
        for number, market in enumerate(MARKETS):
            held = Commitment(months=12, usd_per_hour=0.2 + gpus) if market == "reserved" else None
            price = held.effective_usd_per_hour if held else 0.5 * gpus + 0.1 * number
            found += [
                make_offer(vm_type=vm_type, market=market, region=region, usd_per_hour=price, commitment=held)
                for region in ("us-east-1", "eu-west-3")
            ]
    return found


OFFERS = offers()


def profiles(**changes: Any) -> list[Profile]:
    """One taken on a machine of the list, one elsewhere at another batch size."""
    there = make_profile(id="there", host=Host(name="h", vm_type="aws/with-1-T4"), activation_bytes=10**9, **changes)
    return [there, replace(there, id="elsewhere", micro_batch_size=32, host=Host(name="laptop"))]


@st.composite
def trainings(draw: st.DrawFn) -> tuple[list[Profile], list[Candidate], dict[str, Any]]:
    epochs = draw(st.integers(1, 300))
    doubt = draw(st.none() | st.tuples(st.integers(1, epochs), st.integers(epochs, 5 * epochs)))
    interval = Interval(value=epochs, low=doubt[0], high=doubt[1]) if doubt else None
    measured = profiles(
        validation_seconds=draw(st.sampled_from([(), (0.3,), (0.3, 0.2, 0.25)])),
        checkpoint_seconds=draw(st.sampled_from([(), (2.0,), (2.0, 3.0, 2.5)])),
    )
    shapes = st.builds(
        make_candidate,
        offer=st.sampled_from(OFFERS),
        nodes=st.sampled_from([1, 2, 4]),
        batch_size=st.sampled_from([32, 64, 256]),
    )
    overheads = draw(st.sampled_from([Overheads(), Overheads(boot_seconds=20, setup_seconds=0, results_gib=30)]))
    options = {
        "iterations_per_epoch": draw(st.sampled_from([ITERATIONS, 22.5])),
        "epochs": epochs,
        "epochs_interval": interval,
        "charges": Charges(terms=terms, interruptions=interruptions, overheads=overheads),
    }
    return measured, draw(st.lists(shapes, min_size=1, max_size=12)), options


def predictor(measured: list[Profile]) -> StepTimePredictor:
    return StepTimePredictor(measured, calibration=shipped_coefficients())


def same(a: Interval | None, b: Interval | None) -> bool:
    if a is None or b is None:
        return a is b
    return all(math.isclose(getattr(a, end), getattr(b, end), rel_tol=1e-9) for end in ("value", "low", "high"))


@settings(max_examples=40, deadline=None)
@given(trainings())
def test_unbilled_estimate_equals_the_complete_one(
    training: tuple[list[Profile], list[Candidate], dict[str, Any]],
) -> None:
    measured, candidates, options = training
    complete = estimate_all(predictor(measured), candidates, **options)
    unbilled = estimate_unbilled(predictor(measured), candidates, **options)
    assert len(complete) == len(unbilled) == len(candidates)
    for full, short in zip(complete, unbilled, strict=True):
        assert short.candidate is full.candidate
        assert same(short.seconds, full.seconds)
        assert same(short.usd, full.usd)
        assert same(short.interruptions, full.interruptions)
        assert [phase.name for phase in short.phases] == [phase.name for phase in full.phases]
        assert all(same(b.seconds, f.seconds) for b, f in zip(short.phases, full.phases, strict=True))
        for field in ("memory", "basis", "limited_by", "profile_id", "iteration_seconds", "checkpoint_every_seconds"):
            assert getattr(short, field) == getattr(full, field)
        assert short.bill is None
        assert full.bill is not None
        assert all(phase.how for phase in full.phases)


@settings(max_examples=40, deadline=None)
@given(trainings())
def test_candidate_has_the_same_estimate_alone_and_among_others(
    training: tuple[list[Profile], list[Candidate], dict[str, Any]],
) -> None:
    """Shared parts are computed once; candidates that differ must not share them."""
    measured, candidates, options = training
    together = estimate_unbilled(predictor(measured), candidates, **options)
    for candidate, found in zip(candidates, together, strict=True):
        (alone,) = estimate_unbilled(predictor(measured), [candidate], **options)
        assert same(alone.seconds, found.seconds)
        assert same(alone.usd, found.usd)
        assert alone.memory == found.memory
        assert [phase.name for phase in alone.phases] == [phase.name for phase in found.phases]


@settings(max_examples=40, deadline=None)
@given(trainings())
def test_independent_errors_add_up_in_quadrature(
    training: tuple[list[Profile], list[Candidate], dict[str, Any]],
) -> None:
    measured, candidates, options = training
    for found in estimate_unbilled(predictor(measured), candidates, **(options | {"epochs_interval": None})):
        for end, sign in (("low", -1), ("high", 1)):
            widths = [(p.name, abs(getattr(p.seconds, end) - p.seconds.value)) for p in found.phases]
            program = sum(width for name, width in widths if name not in INDEPENDENT)
            by_hand = found.seconds.value + sign * math.hypot(
                program, *(w for name, w in widths if name in INDEPENDENT)
            )
            assert getattr(found.seconds, end) == pytest.approx(max(0.0, by_hand), rel=1e-9, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(trainings())
def test_uncertain_epochs_widen_the_interval_by_the_times_at_their_bounds(
    training: tuple[list[Profile], list[Candidate], dict[str, Any]],
) -> None:
    """T₋ = T·exp(−√(ln²(T/t₋) + ln²(T/T(N₋)))), on every market, from estimates of exactly N, N₋ and N₊ epochs."""
    measured, candidates, options = training
    between = options["epochs_interval"]
    if between is None:
        return
    shared_predictor = predictor(measured)

    def exactly(epochs: float) -> tuple[Estimate, ...]:
        changed = {"epochs": round(epochs), "epochs_interval": None}
        return estimate_unbilled(shared_predictor, candidates, **(options | changed))

    uncertain = estimate_unbilled(shared_predictor, candidates, **options)
    rows = zip(uncertain, exactly(between.value), exactly(between.low), exactly(between.high), strict=True)
    for found, exact, few, many in rows:
        t = exact.seconds.value
        down = math.hypot(log(t, exact.seconds.low), log(t, few.seconds.value))
        up = math.hypot(log(exact.seconds.high, t), log(many.seconds.value, t))
        assert found.seconds.value == t
        assert found.seconds.low == pytest.approx(t * math.exp(-down), rel=1e-9)
        assert found.seconds.high == pytest.approx(t * math.exp(up), rel=1e-9)


def log(more: float, less: float) -> float:
    return math.log(more / less) if less > 0 else math.inf
