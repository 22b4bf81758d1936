"""What is paid for in addition to the iterations: starting, rounding, commitments, interruptions."""

from collections.abc import Iterator, Sequence
from datetime import date

from trainfare.model.bill import Interruptions
from trainfare.model.estimate import Estimate
from trainfare.model.offer import OLD_PRICE_DAYS, Offer
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason, Value
from trainfare.recommender.explain.codes import describe, reason
from trainfare.recommender.explain.why import break_even
from trainfare.units import SECONDS_PER_HOUR

MIN_STARTING_SHARE = 0.25
"""Boot and setup are mentioned if they take more than this share of the time."""
MIN_UNUSED_SHARE = 0.1
"""Rounding and a minimum charge are mentioned if they are more than this share of the cost, and more than a cent."""
CENT = 0.01
SPOT_DRIFT = {1: 1.02, 7: 1.10, 30: 1.36, 90: 1.93, 180: 2.55, 365: 2.70}
"""Days → the factor within which 90% of the spot prices of 17 EC2 types stayed, 2022-10 to 2024-12
(`python -m benchmarks.spot DIR --prices FILE` recomputes it)."""


def charges(estimate: Estimate, profile: Profile, interruptions: Interruptions | None, today: date) -> Iterator[Reason]:
    """The charges that matter; none if the estimate has no bill, as in old plans."""
    if estimate.bill is None:
        return
    yield from _long_start(estimate)
    yield from _unused_time(estimate)
    yield from _commitment(estimate)
    if estimate.interruptions is not None and interruptions is not None:
        yield from _interruptions(estimate, profile, interruptions)
        yield from _spot_price_age(estimate.candidate.offer, today)


def _long_start(estimate: Estimate) -> Iterator[Reason]:
    starting = sum(phase.seconds.value for phase in estimate.phases if phase.name in ("boot", "setup"))
    if starting > MIN_STARTING_SHARE * estimate.seconds.value:
        yield reason(
            "charges",
            "long_start",
            {"boot": "TIME", "setup": "TIME"},
            starting_seconds=starting,
            seconds=estimate.seconds.value,
        )


def _unused_time(estimate: Estimate) -> Iterator[Reason]:
    least = max(CENT, MIN_UNUSED_SHARE * estimate.usd.value)
    for line in estimate.bill.lines if estimate.bill else ():
        if line.name in ("rounding", "minimum charge") and line.usd.value > least:
            yield reason("charges", "unused_time", usd=line.usd.value, line=line.name, how=line.how)


def _commitment(estimate: Estimate) -> Iterator[Reason]:
    """The total of a commitment, which is paid for months whether it is used or not, and when it pays off."""
    commitment = estimate.candidate.offer.commitment
    if commitment is None:
        return
    price, total = commitment.effective_usd_per_hour, commitment.total_usd
    if commitment.held:
        yield reason("charges", "held_commitment", months=commitment.months, usd_per_hour=price, total_usd=total)
        return
    yield reason(
        "charges",
        "commitment_share",
        months=commitment.months,
        usd_per_hour=price,
        total_usd=total,
        training_hours=estimate.candidate.nodes * estimate.seconds.value / SECONDS_PER_HOUR,
        commitment_hours=commitment.hours,
    )
    yield reason("charges", "commitment_break_even", **break_even(commitment))


def _interruptions(estimate: Estimate, profile: Profile, interruptions: Interruptions) -> Iterator[Reason]:
    count = estimate.interruptions
    if count is None or not count.high:
        return
    yield reason(
        "charges",
        "spot_interruptions",
        interruptions=count.value,
        low=count.low,
        high=count.high,
        rework_seconds=sum(phase.seconds.value for phase in estimate.phases if phase.name == "spot rework"),
        source=interruptions.source,
    )
    every = estimate.checkpoint_every_seconds
    if every is None:
        yield reason("charges", "no_checkpoints")
    elif profile.checkpoint_seconds:
        yield reason("charges", "own_checkpoints", every_seconds=every)
    else:
        yield reason("charges", "assumed_checkpoints", every_seconds=every)


def _spot_price_age(offer: Offer, today: date) -> Iterator[Reason]:
    age = (today - offer.seen_on).days
    if age > 1:
        drift = next((factor for days, factor in SPOT_DRIFT.items() if age <= days), SPOT_DRIFT[365])
        yield reason("charges", "spot_price_age", **_dates(offer, today), factor=drift)


def _dates(offer: Offer, today: date) -> dict[str, str]:
    return {"seen_on": offer.seen_on.isoformat(), "today": today.isoformat()}


def price_is_old(estimate: Estimate, ordered: Sequence[Estimate], today: date, *, renewable: bool) -> Iterator[Reason]:
    """A price that is so old that it may have changed, and the best machine with a newer one; the user states the
    prices of own machines. `renewable` says that an update of the catalog has prices of this provider.

    A newer price is at most OLD_PRICE_DAYS old, or at most half as old where all prices are older.
    """
    offer = estimate.candidate.offer
    days = offer.age_days(today)
    if offer.market == "own" or offer.held or days <= OLD_PRICE_DAYS:
        return
    values: dict[str, Value] = {"days": days, **_dates(offer, today), "machine": describe(estimate.candidate)}
    values["renewable"] = renewable
    others = [e for e in ordered if e.candidate.offer.vm_type != offer.vm_type and not e.candidate.offer.is_here]
    for limit in (OLD_PRICE_DAYS, days / 2):
        newer = next((e for e in others if e.candidate.offer.age_days(today) <= limit), None)
        if newer is not None:
            values["newer"] = describe(newer.candidate)
            values |= {"newer_days": newer.candidate.offer.age_days(today), "newer_usd": newer.usd.value}
            values["newer_seconds"] = newer.seconds.value
            break
    yield reason("assumptions", "price_is_old", **values)


def price_seen(estimate: Estimate, today: date) -> Reason:
    """The date of the price, and the rule by which time is charged."""
    billing = estimate.bill.billing.description if estimate.bill else None
    return reason("assumptions", "price_seen", **_dates(estimate.candidate.offer, today), billing=billing)
