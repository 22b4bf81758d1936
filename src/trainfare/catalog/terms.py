"""How each provider charges, and how often it takes spot machines back: dated tables, with what stands in for gaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache

from trainfare.catalog.gpus import Source, bundled_rows, load_sources
from trainfare.catalog.own import PROVIDER as OWN
from trainfare.catalog.spot_zones import load_zones, describe_traces
from trainfare.model.bill import Billing, Interruptions, Terms
from trainfare.model.interval import Interval
from trainfare.model.machine import VmType
from trainfare.model.offer import Offer
from trainfare.model.spot import pool_histories

# Of machines that no trace is of: what 13 zones of AWS showed of machines with one GPU in 2022 and 2023, and how the
# rate grew with the number of GPUs (`python -m benchmarks.spot` recomputes both). The interval reaches from the rare
# losses that providers advertise (a few in a hundred machines a month) to the worst zone.
ASSUMED_PER_HOUR = 0.30
ASSUMED_LOW, ASSUMED_HIGH = 0.01, 1.4
EXPONENT_OF_GPUS = 0.57

OWN_TERMS = Terms(provider=OWN, billing=Billing(), boot_seconds=Interval.exactly(0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One fact of a provider's terms, as text, the day somebody looked, and its source."""

    fact: str
    value: str
    seen_on: date
    source: Source


@cache
def load_term_facts() -> Mapping[str, tuple[Term, ...]]:
    """By provider."""
    sources = load_sources()
    facts: dict[str, list[Term]] = {}
    for row in bundled_rows("terms.csv"):
        day = date.fromisoformat(row["seen_on"])
        facts.setdefault(row["provider"], []).append(
            Term(fact=row["fact"], value=row["value"], seen_on=day, source=sources[row["source"]])
        )
    return {provider: tuple(found) for provider, found in facts.items()}


@cache
def load_terms() -> Mapping[str, Terms]:
    """By provider."""
    return {provider: _terms(provider, facts) for provider, facts in load_term_facts().items()}


def terms_of(offer: Offer) -> Terms:
    """Your own machines have none. A provider that the table does not know gets cautious ones, marked as assumed."""
    if offer.market == "own":
        return OWN_TERMS
    return load_terms().get(offer.vm_type.provider) or _assumed(offer.vm_type.provider)


def find_interruptions(vm_type: VmType, region: str | None = None) -> Interruptions:
    """By trace where there is one of this provider, GPU and number of GPUs, of the region's own zones where there are
    any; else an assumption that says so."""
    gpu = vm_type.gpu.name if vm_type.gpu else ""
    key = (vm_type.provider, gpu, vm_type.gpus)
    own = _traced_in(*key, region) if region else None
    return own or _traced().get(key) or _assumed_interruptions(vm_type.gpus)


def _terms(provider: str, facts: tuple[Term, ...]) -> Terms:
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
def _assumed(provider: str) -> Terms:
    """By the minute, and the dearest disk and egress of those that are known."""
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
def _traced_in(provider: str, gpu: str, gpus: int, region: str) -> Interruptions | None:
    """From the lowest zone to the highest, and a factor of two: a region has few."""
    zones = [zone for zone in load_zones() if zone.key == (provider, gpu, gpus) and zone.region == region]
    if not zones:
        return None
    rates = [zone.history.lost_per_hour for zone in zones]
    pooled = pool_histories([zone.history for zone in zones], region).lost_per_hour
    return Interruptions(
        per_hour=Interval(value=pooled, low=min(rates) / 2, high=max(rates) * 2), source=describe_traces(zones, region)
    )


@cache
def _assumed_interruptions(gpus: int) -> Interruptions:
    growth = max(1, gpus) ** EXPONENT_OF_GPUS
    return Interruptions(
        per_hour=Interval(
            value=ASSUMED_PER_HOUR * growth, low=ASSUMED_LOW, high=max(ASSUMED_HIGH, ASSUMED_HIGH / 2 * growth)
        ),
        source="an assumption: nobody has traced this GPU, so the V100 and K80 of AWS in 2022 and 2023 stand in",
    )
