"""The charges of each provider, and how often it takes spot machines back: dated tables, with assumptions for gaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainfare.catalog.gpu_facts import bundled_rows, load_sources
from trainfare.catalog.own_machines import PROVIDER as OWN
from trainfare.catalog.spot_zones import describe_traces, load_zone_traces
from trainfare.model.bill import Billing, Interruptions, Terms
from trainfare.model.catalog import FactSource
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.offer import Offer
from trainfare.model.spot import pool_histories

# The rate for machines without a trace: that of 13 zones of AWS for machines with one GPU in 2022 and 2023, and its
# growth with the number of GPUs (`python -m benchmarks.spot` recomputes both). The interval reaches from the rare
# losses that providers advertise (a few in a hundred machines a month) to the worst zone.
ASSUMED_PER_HOUR = 0.30
ASSUMED_LOW, ASSUMED_HIGH = 0.01, 1.4
EXPONENT_OF_GPUS = 0.57

OWN_TERMS = Terms(provider=OWN, billing=Billing(), boot_seconds=Interval.exactly(0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFact:
    """One fact of a provider's terms, as text, the day it was looked up, and its source."""

    fact: str
    value: str
    seen_on: date
    source: FactSource


@cache
def load_term_facts() -> Mapping[str, tuple[TermFact, ...]]:
    """The facts by provider."""
    sources = load_sources()
    facts: dict[str, list[TermFact]] = {}
    for row in bundled_rows("terms.csv"):
        day = date.fromisoformat(row["seen_on"])
        facts.setdefault(row["provider"], []).append(
            TermFact(fact=row["fact"], value=row["value"], seen_on=day, source=sources[row["source"]])
        )
    return {provider: tuple(of_provider) for provider, of_provider in facts.items()}


@cache
def load_terms() -> Mapping[str, Terms]:
    """The terms by provider."""
    return {provider: _terms(provider, facts) for provider, facts in load_term_facts().items()}


def find_terms(offer: Offer) -> Terms:
    """The terms of the offer's provider: none for the user's own machines, and cautious ones, marked as assumed, for a
    provider that the table does not have."""
    if offer.market == "own":
        return OWN_TERMS
    return load_terms().get(offer.vm_type.provider) or _assumed_terms(offer.vm_type.provider)


def find_interruptions(vm_type: VmType, region: str | None = None) -> Interruptions:
    """The rate at which spot machines of this type are lost.

    It is that of traces of this provider, GPU and number of GPUs, in the zones of the region if there are any;
    otherwise an assumption, whose source says so.
    """
    gpu = vm_type.gpu.name if vm_type.gpu else ""
    key = (vm_type.provider, gpu, vm_type.gpus)
    of_region = _traced_in_region(*key, region) if region else None
    return of_region or _traced().get(key) or _assumed_interruptions(vm_type.gpus)


def _terms(provider: str, facts: tuple[TermFact, ...]) -> Terms:
    value = {term.fact: float(term.value) for term in facts}
    return Terms(
        provider=provider,
        billing=Billing(
            increment_seconds=value["increment_seconds"], minimum_seconds=value.get("minimum_seconds", 0.0)
        ),
        boot_seconds=Interval.within_factor(value["boot_seconds"], value["boot_factor"]),
        disk_usd_per_gib_month=value.get("disk_usd_per_gib_month", 0.0),
        egress_usd_per_gib=value.get("egress_usd_per_gib", 0.0),
        free_egress_gib=value.get("free_egress_gib", 0.0),
    )


@cache
def _assumed_terms(provider: str) -> Terms:
    """Billing by the minute, and the most expensive disk and egress of all known providers."""
    known = load_terms().values()
    return Terms(
        provider=provider,
        billing=Billing(increment_seconds=60.0),
        boot_seconds=Interval.within_factor(180.0, 3.0),
        disk_usd_per_gib_month=max(terms.disk_usd_per_gib_month for terms in known),
        egress_usd_per_gib=max(terms.egress_usd_per_gib for terms in known),
        assumed=True,
    )


@cache
def _traced() -> Mapping[tuple[str, str, int], Interruptions]:
    return {
        (row["provider"], row["gpu"], int(row["gpus"])): Interruptions(
            per_hour=Interval(value=float(row["per_hour"]), low=float(row["low"]), high=float(row["high"])),
            source=f"traces of {row['zones']} zones, {row['first_day']} to {row['last_day']}",
        )
        for row in bundled_rows("interruptions.csv")
    }


@cache
def _traced_in_region(provider: str, gpu: str, gpus: int, region: str) -> Interruptions | None:
    """The pooled rate of the region's zones; the interval is that of their rates, widened by a factor of two because a
    region has few zones."""
    traces = [trace for trace in load_zone_traces() if trace.key == (provider, gpu, gpus) and trace.region == region]
    if not traces:
        return None
    rates = [trace.history.lost_per_hour for trace in traces]
    pooled = pool_histories([trace.history for trace in traces], region).lost_per_hour
    return Interruptions(
        per_hour=Interval(value=pooled, low=min(rates) / 2, high=max(rates) * 2), source=describe_traces(traces, region)
    )


@cache
def _assumed_interruptions(gpus: int) -> Interruptions:
    growth = max(1, gpus) ** EXPONENT_OF_GPUS
    return Interruptions(
        per_hour=Interval(
            value=ASSUMED_PER_HOUR * growth, low=ASSUMED_LOW, high=max(ASSUMED_HIGH, ASSUMED_HIGH / 2 * growth)
        ),
        source=f"an assumption: there is no trace of this {'GPU' if gpus else 'machine'}, so those of V100 and K80 on "
        "AWS in 2022 and 2023 are used",
    )
