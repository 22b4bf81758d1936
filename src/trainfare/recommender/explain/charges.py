"""Sentences about what is paid for beside the iterations: starting, rounding, commitments, interruptions."""

from collections.abc import Iterator
from datetime import date

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.offer import HOURS_PER_MONTH, Commitment, Offer
from trainfare.model.profile import Profile
from trainfare.units import SECONDS_PER_HOUR, format_age, format_count, format_duration, format_usd

STARTING_SHARE = 0.25
"""Of the time, from which on it is worth a sentence that the machine must boot and be set up first."""
ROUNDING_SHARE = 0.1
"""Of the cost, likewise for what rounding and the minimum charge add."""

A_CENT = 0.01

SPOT_DRIFT = {1: 1.02, 7: 1.10, 30: 1.36, 90: 1.93, 180: 2.55, 365: 2.70}
"""Days → the factor within which 90 % of the spot prices of 17 EC2 types stayed, 2022-10 to 2024-12
(`python -m benchmarks.spot DIR --prices FILE` recomputes it)."""


def charged(estimate: Estimate, profile: Profile, interruptions: Interruptions | None, today: date) -> Iterator[str]:
    """What is paid for beside the iterations, where it matters; plans of before there were bills say nothing."""
    if estimate.bill is None:
        return
    seconds = {phase.name: phase.seconds.value for phase in estimate.phases}
    starting = seconds.get("boot", 0.0) + seconds.get("setup", 0.0)
    if starting > STARTING_SHARE * estimate.seconds.value:
        yield (
            f"starting the machine takes {format_duration(starting)} of the {format_duration(estimate.seconds.value)}: "
            "boot, setup and bringing the data there count much; --boot and --setup say how long yours take"
        )
    for line in estimate.bill.lines:
        much = max(A_CENT, ROUNDING_SHARE * estimate.usd.value)
        if line.name in ("rounding", "minimum charge") and line.usd.value > much:
            yield f"{format_usd(line.usd.value)} of the cost are for time it does not need: {line.how}"
    yield from _committed(estimate.candidate.offer, estimate)
    if estimate.interruptions is not None and interruptions is not None:
        yield from _spot(estimate, profile, interruptions)
        yield from _spot_price(estimate.candidate.offer, today)


def _committed(offer: Offer, estimate: Estimate) -> Iterator[str]:
    """What a price rests on that is had only for months at a time."""
    commitment = offer.commitment
    if commitment is None:
        return
    share = f"{commitment.effective_usd_per_hour:.4g} $/h, its share of the {commitment.whole_usd:.0f} $"
    if commitment.held:
        yield (
            f"you hold it for {months(commitment)}, paid whether used or not: the cost is at {share} in all; "
            "beside storage and egress the run adds nothing to what you pay"
        )
        return
    hours = estimate.candidate.nodes * estimate.seconds.value / SECONDS_PER_HOUR
    yield (
        f"the cost is at {share} that {months(commitment)} of one machine cost{'s' if commitment.months == 1 else ''}, "
        "paid whether used or not; "
        f"this training takes {format_count(hours)} of {commitment.hours:.0f} hours"
    )
    yield f"a commitment of {months(commitment)} {pays_off(commitment)}"


def pays_off(commitment: Commitment) -> str:
    """`pays off above 460 hours a month (63 % of the time) against on demand at 0.526 $/h`."""
    hours = commitment.break_even_hours
    if hours is None:
        return "cannot be compared with on demand, which has no price there"
    against = f"on demand at {commitment.on_demand_usd_per_hour:.4g} $/h"
    if hours >= HOURS_PER_MONTH:
        return f"never pays off against {against}"
    share = 100 * hours / HOURS_PER_MONTH
    return f"pays off above {hours:.0f} hours a month ({share:.0f} % of the time) against {against}"


def months(commitment: Commitment) -> str:
    return f"{commitment.months} month{'s' if commitment.months != 1 else ''}"


def _spot(estimate: Estimate, profile: Profile, interruptions: Interruptions) -> Iterator[str]:
    count = estimate.interruptions
    if count is None or not count.high:
        return
    lost = next((phase.seconds.value for phase in estimate.phases if phase.name == "spot rework"), 0.0)
    yield (
        f"on spot, {format_count(count.value)} interruptions are expected (90 %: {count.low:.0f} to {count.high:.0f}), "
        f"which add {format_duration(lost)}; the rate is from {interruptions.source}"
    )
    if estimate.checkpoint_every_seconds is None:
        yield "it writes no checkpoint in that time: an interruption starts it over"
    elif profile.checkpoint_seconds:
        yield (
            f"its own checkpoints are {format_duration(estimate.checkpoint_every_seconds)} apart; "
            "it must start again from the last one by itself"
        )
    else:
        yield (
            f"a checkpoint every {format_duration(estimate.checkpoint_every_seconds)} is assumed, from which the "
            "program starts again; none was seen, and without any an interruption starts it over"
        )


def _spot_price(offer: Offer, today: date) -> Iterator[str]:
    age = (today - offer.seen_on).days
    drift = next((factor for days, factor in SPOT_DRIFT.items() if age <= days), SPOT_DRIFT[365])
    if age > 1:
        yield (
            f"its spot price is {format_age(offer.seen_on, today)}: nine in ten of such age were within a factor of "
            f"{drift:.2g} of the price of the day, which is not in the interval"
        )
