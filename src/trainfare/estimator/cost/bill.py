"""What a time costs: line by line, by the rule of whoever rents the machine out.

    usd = price · n · billed(T) + disk · GiB · n · billed(T) + egress · GiB

with T the sum of all phases, n nodes, and billed(T) the time in whole increments and never less than the minimum. The
price is known to the cent, so only the time is uncertain; since billed() never falls, the ends of the interval of the
cost are the costs of the ends of the interval of the time.

The price of a commitment is that of an hour when all are used, the upfront payment spread over the term:

    price = upfront / (730 · months) + usd_per_hour

also where it is held already. Then the run adds nothing to what is paid for the machine, but takes hours that another
run could have had: at no price, a slow machine that is held would beat every other, for each of many runs at once.

Limits: on spot each start begins a new charge, whose minimum and rounding are not added; bringing results home is
charged by the GiB, its time is not in T.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trainfare.model.bill import Bill, Billing, BillLine, Interruptions, Overheads, Terms
from trainfare.model.estimate import Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import HOURS_PER_MONTH, Candidate, Commitment, Offer
from trainfare.units import SECONDS_PER_HOUR, format_duration, format_usd

NOTHING = 1e-8
"""A share of the time that is only what adding up floats leaves behind."""
INSTANT = Billing(increment_seconds=1e-9)
"""Time as it is, not rounded."""

SETUP_SECONDS = Interval.within_factor(180.0, 3.0)
"""To install a program's packages and copy its code on a machine that has drivers: an assumption, from a minute with
everything in the image to nine where much is downloaded."""
DISK_GIB = 100.0
"""A system image with drivers and a framework takes 30 to 60 GiB."""
DATA_GIB_PER_SECOND = 0.1
"""From a bucket or another host to a rented machine: an assumption, within a factor of three."""


def plain_terms(offer: Offer) -> Terms:
    """Price × time and nothing else."""
    return Terms(
        provider=offer.vm_type.provider,
        billing=INSTANT,
        boot_seconds=Interval.exactly(0.0),
    )


def never(_offer: Offer) -> Interruptions:
    return Interruptions(per_hour=Interval.exactly(0.0), source="interruptions are left out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """How time becomes money: terms of the provider, how often spot is interrupted, what the user says. Without any,
    it is price × time."""

    terms: Callable[[Offer], Terms] = plain_terms
    interruptions: Callable[[Offer], Interruptions] = never
    overheads: Overheads = field(
        default_factory=lambda: Overheads(boot_seconds=0.0, setup_seconds=0.0, disk_gib=0.0, results_gib=0.0)
    )


def starting_phases(offer: Offer, terms: Terms, overheads: Overheads) -> tuple[Phase, ...]:
    """Boot and setup; your own machine is there, and set up."""
    return tuple(phase for phase in (_boot(offer, terms, overheads), _setup(offer, overheads)) if phase.seconds.high)


def _boot(offer: Offer, terms: Terms, overheads: Overheads) -> Phase:
    stated = overheads.boot_seconds
    if offer.market == "own" or stated is None:
        how = f"{_ends(terms.boot_seconds)} on {terms.provider}, an assumption: give --boot"
        return Phase(name="boot", seconds=terms.boot_seconds, how=how)
    return Phase(name="boot", seconds=Interval.exactly(stated), how=f"{format_duration(stated)}, as you say")


def _setup(offer: Offer, overheads: Overheads) -> Phase:
    stated = overheads.setup_seconds
    if stated is not None:
        seconds, how = Interval.exactly(stated), f"{format_duration(stated)}, as you say"
    elif offer.market == "own":
        seconds, how = Interval.exactly(0.0), "your machine is set up"
    else:
        seconds, how = SETUP_SECONDS, f"{_ends(SETUP_SECONDS)}, an assumption: give --setup"
    if overheads.data_gib:
        copying = Interval.within_factor(overheads.data_gib / DATA_GIB_PER_SECOND, 3.0)
        seconds = seconds + copying
        how += f"; + {overheads.data_gib:.3g} GiB of data / {DATA_GIB_PER_SECOND:g} GiB/s, assumed within a factor of 3"
    return Phase(name="setup", seconds=seconds, how=how)


def bill(
    phases: Sequence[Phase],
    seconds: Interval,
    candidate: Candidate,
    *,
    terms: Terms,
    overheads: Overheads,
    results_gib: float | None,
) -> Bill:
    """`seconds` is the time of all phases; `results_gib` what is brought home, None where nobody knows."""
    billing, usd_per_second = terms.billing, candidate.usd_per_hour / SECONDS_PER_HOUR
    billed = _billed(seconds, billing)
    rounding = _rounding(seconds.value, billed.value, billing, usd_per_second)
    disk = _disk_line(billed, candidate, terms, overheads)
    egress = _egress_line(candidate.offer, terms, results_gib)
    rate, rule = _rate(candidate), _rule(candidate.offer.commitment)
    return Bill(
        lines=(
            *(_phase_line(p, usd_per_second, rate if number else rate + rule) for number, p in enumerate(phases)),
            *(line for line in (rounding, disk, egress) if line is not None),
        ),
        usd=charge(seconds, candidate, terms=terms, overheads=overheads, results_gib=results_gib),
        billing=billing,
        billed_seconds=billed.value,
        usd_per_hour=candidate.usd_per_hour,
        prices_seen_on=candidate.offer.seen_on,
    )


def charge(
    seconds: Interval, candidate: Candidate, *, terms: Terms, overheads: Overheads, results_gib: float | None
) -> Interval:
    """What it costs in all, without the lines: the machine and its disk for the billed time, and what is sent home.

    usd = billed·(price + disk) + egress
    """
    usd_per_hour = candidate.usd_per_hour + _disk_usd_per_hour(candidate, terms, overheads)
    usd_per_second = usd_per_hour / SECONDS_PER_HOUR
    billed = terms.billing.billed_seconds
    least, most = _egress_ends(candidate.offer, terms, results_gib)
    return Interval(
        value=billed(seconds.value) * usd_per_second + least,
        low=billed(seconds.low) * usd_per_second + least,
        high=billed(seconds.high) * usd_per_second + most,
    )


def _billed(seconds: Interval, billing: Billing) -> Interval:
    return Interval(
        value=billing.billed_seconds(seconds.value),
        low=billing.billed_seconds(seconds.low),
        high=billing.billed_seconds(seconds.high),
    )


def _rate(candidate: Candidate) -> str:
    """`0.526 $/h`, `2 nodes × 0.4 $/h reserved`."""
    price = f"{candidate.offer.usd_per_hour:.4g} $/h" + (" reserved" if candidate.offer.commitment else "")
    return price if candidate.nodes == 1 else f"{candidate.nodes} nodes × {price}"


def _rule(commitment: Commitment | None) -> str:
    """How the price of a commitment comes about: ` (12 months: 876 $ / 8760 h + 0.3 $/h)`."""
    if commitment is None:
        return ""
    months = f"{commitment.months} month{'s' if commitment.months != 1 else ''}"
    if not commitment.upfront_usd:
        return f" ({months}, nothing upfront)"
    hourly = f" + {commitment.usd_per_hour:.4g} $/h" if commitment.usd_per_hour else ""
    return f" ({months}: {commitment.upfront_usd:.8g} $ / {commitment.hours:.0f} h{hourly})"


def _phase_line(phase: Phase, usd_per_second: float, rate: str) -> BillLine:
    usd = phase.seconds * usd_per_second
    how = phase.how or format_duration(phase.seconds.value)
    return BillLine(name=phase.name, usd=usd, how=f"{how}; × {rate} = {format_usd(usd.value)}")


def _rounding(seconds: float, billed: float, billing: Billing, usd_per_second: float) -> BillLine | None:
    """What the rule charges beyond the time; anything from nothing to a whole increment."""
    added = billed - seconds
    if added <= NOTHING * billed:
        return None
    least = added > billing.increment_seconds
    most = max(added, billing.minimum_seconds if least else billing.increment_seconds)
    return BillLine(
        name="minimum charge" if least else "rounding",
        usd=Interval(value=added * usd_per_second, low=0.0, high=most * usd_per_second),
        how=f"charged {billing.description}: {format_duration(added)} more than it takes",
    )


def _disk_gib(overheads: Overheads) -> float:
    """Of each node."""
    return (DISK_GIB if overheads.disk_gib is None else overheads.disk_gib) + (overheads.data_gib or 0.0)


def _disk_usd_per_hour(candidate: Candidate, terms: Terms, overheads: Overheads) -> float:
    return terms.disk_usd_per_gib_month * _disk_gib(overheads) * candidate.nodes / HOURS_PER_MONTH


def _disk_line(billed: Interval, candidate: Candidate, terms: Terms, overheads: Overheads) -> BillLine | None:
    usd_per_hour = _disk_usd_per_hour(candidate, terms, overheads)
    if not usd_per_hour:
        return None
    usd = billed * (usd_per_hour / SECONDS_PER_HOUR)
    each = "" if candidate.nodes == 1 else f" × {candidate.nodes} nodes"
    return BillLine(
        name="storage",
        usd=usd,
        how=f"{_disk_gib(overheads):.4g} GiB{each} × {terms.disk_usd_per_gib_month:g} $ a GiB and month, "
        f"for {format_duration(billed.value)} of {HOURS_PER_MONTH:g} h = {format_usd(usd.value)}",
    )


def _egress_ends(offer: Offer, terms: Terms, results_gib: float | None) -> tuple[float, float]:
    """As if all that is free in a month were left, and as if nothing were. Your own machine is at home."""
    if offer.market == "own" or not results_gib or not terms.egress_usd_per_gib:
        return 0.0, 0.0
    beyond = max(0.0, results_gib - terms.free_egress_gib)
    return beyond * terms.egress_usd_per_gib, results_gib * terms.egress_usd_per_gib


def _egress_line(offer: Offer, terms: Terms, results_gib: float | None) -> BillLine | None:
    least, most = _egress_ends(offer, terms, results_gib)
    if not most:
        return None
    usd = Interval(value=least, low=least, high=most)
    free = f", the first {terms.free_egress_gib:g} GiB a month free" if terms.free_egress_gib else ""
    return BillLine(
        name="egress",
        usd=usd,
        how=f"{results_gib:.3g} GiB of results × {terms.egress_usd_per_gib:g} ${free} = {format_usd(usd.value)}",
    )


def _ends(seconds: Interval) -> str:
    return f"{format_duration(seconds.value)} ({format_duration(seconds.low)} to {format_duration(seconds.high)})"
