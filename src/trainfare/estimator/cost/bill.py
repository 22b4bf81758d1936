"""The cost of a time, line by line, by the billing rule of the provider.

    usd = price · n · billed(T) + disk · GiB · n · billed(T) + egress · GiB

with T the sum of all phases, n nodes, and billed(T) the time rounded up to increments and at least the minimum. The
price is exact, so only the time is uncertain; since billed() never falls, the bounds of the cost are the costs of the
bounds of the time.

The price of a commitment is that of an hour if all hours are used, with the upfront payment spread over the term:

    price = upfront / (730 · months) + usd_per_hour

also where the commitment already exists. Then the run adds nothing to the payments for the machine, but uses hours that
another run could have used: at no price, a slow machine under a commitment would win against every other, for each of
many runs at once.

Limits: on spot each start begins a new charge, whose minimum and rounding are not added; downloading results is charged
by the GiB, its time is not in T.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trainfare.estimator.cost.interruptions import Bounded, ValueRange
from trainfare.model.bill import (
    Bill,
    Billing,
    BillLine,
    Interruptions,
    MeasuredTime,
    Overheads,
    Terms,
    billed_seconds,
)
from trainfare.model.estimate import Phase, PhaseName
from trainfare.model.interval import Interval
from trainfare.model.offer import HOURS_PER_MONTH, Candidate, Commitment, Offer
from trainfare.units import (
    SECONDS_PER_HOUR,
    format_count,
    format_duration,
    format_usd,
    format_usd_per_hour,
    plural,
)

if TYPE_CHECKING:
    from trainfare.estimator.cost.interruptions import Numbers

ROUNDING_ERROR = 1e-8
"""A share of the time that may come from adding floats."""
UNROUNDED_BILLING = Billing(increment_seconds=1e-9)
"""Billing of the exact time."""

SETUP_SECONDS = Interval.within_factor(180.0, 3.0)
"""Time to install a program's packages and copy its code to a machine with drivers: an assumption, from a minute with
everything in the image to nine with large downloads."""
DISK_GIB = 100.0
"""Size of the disk: a system image with drivers and a framework takes 30 to 60 GiB."""
DATA_GIB_PER_SECOND = 0.1
"""Transfer rate from a bucket or another host to a rented machine: an assumption, within a factor of three."""


def price_only_terms(offer: Offer) -> Terms:
    """Terms under which the cost is exactly price × time."""
    return Terms(
        provider=offer.vm_type.provider,
        billing=UNROUNDED_BILLING,
        boot_seconds=Interval.exactly(0.0),
    )


def no_interruptions(_offer: Offer) -> Interruptions:
    return Interruptions(per_hour=Interval.exactly(0.0), source="interruptions are not modelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """The terms of the provider, the rate of spot interruptions and the user's overheads; by default price × time."""

    terms: Callable[[Offer], Terms] = price_only_terms
    interruptions: Callable[[Offer], Interruptions] = no_interruptions
    overheads: Overheads = field(
        default_factory=lambda: Overheads(boot_seconds=0.0, setup_seconds=0.0, disk_gib=0.0, results_gib=0.0)
    )


def starting_phases(offer: Offer, terms: Terms, overheads: Overheads) -> tuple[Phase, ...]:
    """The phases boot, setup and, where the user's runs say how long it takes, collecting; without those that take no
    time, as on the user's own machine."""
    phases = (_boot(offer, terms, overheads), _setup(offer, terms, overheads), *_collecting(terms))
    return tuple(phase for phase in phases if phase.seconds.high)


def expected_boot(terms: Terms) -> Interval:
    """The time to boot a rented machine, if the user states none."""
    return terms.measured.boot.seconds if terms.measured and terms.measured.boot else terms.boot_seconds


def expected_setup(terms: Terms) -> Interval:
    """The time to set a rented machine up, if the user states none."""
    return terms.measured.setup.seconds if terms.measured and terms.measured.setup else SETUP_SECONDS


def _boot(offer: Offer, terms: Terms, overheads: Overheads) -> Phase:
    stated, measured = overheads.boot_seconds, terms.measured.boot if terms.measured else None
    if stated is not None and offer.market != "own":
        return Phase(name="boot", seconds=Interval.exactly(stated), how=f"{format_duration(stated)}, as you stated")
    if measured is not None:
        return _measured_phase("boot", measured)
    how = f"{_describe_range(terms.boot_seconds)} on {terms.provider}, an assumption"
    return Phase(name="boot", seconds=terms.boot_seconds, how=how)


def _collecting(terms: Terms) -> tuple[Phase, ...]:
    measured = terms.measured.collecting if terms.measured else None
    return () if measured is None else (_measured_phase("collecting", measured),)


def _measured_phase(name: PhaseName, measured: MeasuredTime) -> Phase:
    return Phase(name=name, seconds=measured.seconds, how=f"{_describe_range(measured.seconds)}, {measured.source}")


def _setup(offer: Offer, terms: Terms, overheads: Overheads) -> Phase:
    stated, measured = overheads.setup_seconds, terms.measured.setup if terms.measured else None
    if stated is not None:
        seconds, how = Interval.exactly(stated), f"{format_duration(stated)}, as you stated"
    elif measured is not None:
        seconds, how = measured.seconds, f"{_describe_range(measured.seconds)}, {measured.source}"
    elif offer.market == "own":
        seconds, how = Interval.exactly(0.0), "your machine is already set up"
    else:
        seconds, how = SETUP_SECONDS, f"{_describe_range(SETUP_SECONDS)}, an assumption"
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
    """The bill of `seconds`, the time of all phases; `results_gib` are downloaded, None where the size is not known."""
    billing, usd_per_second = terms.billing, candidate.usd_per_hour / SECONDS_PER_HOUR
    billed = _billed(seconds, billing)
    rounding = _rounding(seconds.value, billed.value, billing, usd_per_second)
    disk = _disk_line(billed, candidate, terms, overheads)
    egress = _egress_line(candidate.offer, terms, results_gib)
    rate, rule = _rate(candidate), _rule(candidate.offer.commitment)
    usd = charge_rate(candidate, terms=terms, overheads=overheads, results_gib=results_gib).charge(seconds)
    return Bill(
        lines=(
            *(_phase_line(p, usd_per_second, rate if number else rate + rule) for number, p in enumerate(phases)),
            *(line for line in (rounding, disk, egress) if line is not None),
        ),
        usd=Interval(value=float(usd.value), low=float(usd.low), high=float(usd.high)),
        billing=billing,
        billed_seconds=billed.value,
        usd_per_hour=candidate.usd_per_hour,
        prices_seen_on=candidate.offer.seen_on,
    )


class ChargeRate(NamedTuple):
    """The total cost of a candidate as a function of its time, without the lines of a bill; or columns of many.

    usd = billed·(price + disk) + egress
    """

    increment_seconds: "Numbers"
    minimum_seconds: "Numbers"
    usd_per_second: "Numbers"
    """Dollars for machine and disk together."""
    egress_low: "Numbers"
    egress_high: "Numbers"

    def charge(self, seconds: Bounded) -> "ValueRange[Numbers]":
        """The cost of a time and of its bounds."""

        def machine(end: "Numbers") -> "Numbers":
            billed = billed_seconds(end, increment=self.increment_seconds, minimum=self.minimum_seconds)
            return billed * self.usd_per_second

        return ValueRange(
            machine(seconds.value) + self.egress_low,
            machine(seconds.low) + self.egress_low,
            machine(seconds.high) + self.egress_high,
        )

    def unrounded(self) -> "ChargeRate":
        """The same without rounding of the billed time and without a minimum charge."""
        rule = UNROUNDED_BILLING
        return self._replace(increment_seconds=rule.increment_seconds, minimum_seconds=rule.minimum_seconds)


def charge_rate(candidate: Candidate, *, terms: Terms, overheads: Overheads, results_gib: float | None) -> ChargeRate:
    """The rate of a candidate; it does not depend on the batch size."""
    usd_per_hour = candidate.usd_per_hour + _disk_usd_per_hour(candidate, terms, overheads)
    low, high = _egress_bounds(candidate.offer, terms, results_gib)
    billing = terms.billing
    return ChargeRate(billing.increment_seconds, billing.minimum_seconds, usd_per_hour / SECONDS_PER_HOUR, low, high)


def _billed(seconds: Interval, billing: Billing) -> Interval:
    return Interval(
        value=billing.billed_seconds(seconds.value),
        low=billing.billed_seconds(seconds.low),
        high=billing.billed_seconds(seconds.high),
    )


def _rate(candidate: Candidate) -> str:
    """The price in words: `$0.526/h`, `2 nodes × $0.40/h reserved`."""
    price = format_usd_per_hour(candidate.offer.usd_per_hour) + (" reserved" if candidate.offer.commitment else "")
    return price if candidate.nodes == 1 else f"{candidate.nodes} nodes × {price}"


def _rule(commitment: Commitment | None) -> str:
    """The calculation of the price of a commitment: ` (12 months: $876.00 / 8,760 h + $0.30/h)`."""
    if commitment is None:
        return ""
    months = plural(commitment.months, "month")
    if not commitment.upfront_usd:
        return f" ({months}, nothing upfront)"
    hourly = f" + {format_usd_per_hour(commitment.usd_per_hour)}" if commitment.usd_per_hour else ""
    return f" ({months}: {format_usd(commitment.upfront_usd)} / {format_count(commitment.hours)} h{hourly})"


def _phase_line(phase: Phase, usd_per_second: float, rate: str) -> BillLine:
    usd = phase.seconds * usd_per_second
    how = phase.how or format_duration(phase.seconds.value)
    return BillLine(name=phase.name, usd=usd, how=f"{how}; × {rate} = {format_usd(usd.value)}")


def _rounding(seconds: float, billed: float, billing: Billing, usd_per_second: float) -> BillLine | None:
    """The charge above the time by the billing rule: between nothing and one increment, or up to the minimum."""
    added = billed - seconds
    if added <= ROUNDING_ERROR * billed:
        return None
    below_minimum = added > billing.increment_seconds
    largest = max(added, billing.minimum_seconds if below_minimum else billing.increment_seconds)
    return BillLine(
        name="minimum charge" if below_minimum else "rounding",
        usd=Interval(value=added * usd_per_second, low=0.0, high=largest * usd_per_second),
        how=f"charged {billing.description}: {format_duration(added)} more than the time used",
    )


def _disk_gib(overheads: Overheads) -> float:
    """The disk of each node."""
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
        how=f"{_disk_gib(overheads):.4g} GiB{each} × {format_usd(terms.disk_usd_per_gib_month)} per GiB and month, "
        f"for {format_duration(billed.value)} of {HOURS_PER_MONTH:g} h = {format_usd(usd.value)}",
    )


def _egress_bounds(offer: Offer, terms: Terms, results_gib: float | None) -> tuple[float, float]:
    """The price with the free amount of a month unused, and with none of it left; zero on the user's own machine."""
    if offer.market == "own" or not results_gib or not terms.egress_usd_per_gib:
        return 0.0, 0.0
    charged = max(0.0, results_gib - terms.free_egress_gib)
    return charged * terms.egress_usd_per_gib, results_gib * terms.egress_usd_per_gib


def _egress_line(offer: Offer, terms: Terms, results_gib: float | None) -> BillLine | None:
    low, high = _egress_bounds(offer, terms, results_gib)
    if not high:
        return None
    usd = Interval(value=low, low=low, high=high)
    free = f", the first {terms.free_egress_gib:g} GiB a month free" if terms.free_egress_gib else ""
    price = format_usd(terms.egress_usd_per_gib)
    return BillLine(
        name="egress",
        usd=usd,
        how=f"{results_gib:.3g} GiB of results × {price}{free} = {format_usd(usd.value)}",
    )


def _describe_range(seconds: Interval) -> str:
    return f"{format_duration(seconds.value)} ({format_duration(seconds.low)} to {format_duration(seconds.high)})"
