"""Machines reserved for months: `[[commitment]]` of the user's `machines.toml` → offers on the market "reserved".

[[commitment]]
machine = "aws/p4d.24xlarge"     as `trainfare catalog list` names it
region = "us-east-1"             may be left out if the machine is offered in only one region
months = 12
usd_per_hour = 12.5              paid for each hour; or
discount = 0.37                  off the price on demand, the upfront payment included
upfront_usd = 40_000             absent: nothing
already_paid = true              absent: it is not bought yet
until = 2027-06-30               its last day; absent: it does not end
seen_on = 2026-11-01             absent: the day the file was changed

No commitment is shipped, because their prices are agreed with the provider or depend on the day.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from trainfare.catalog.machines_file import COMMITMENTS, FileSection, read_machines_file, suggest
from trainfare.catalog.own_machines import SOURCE
from trainfare.errors import UsageError
from trainfare.model.machine import VmType
from trainfare.model.offer import HOURS_PER_MONTH, Commitment, Offer
from trainfare.units import format_percent, format_usd_per_hour

_KEYS = (
    "machine",
    "region",
    "months",
    "usd_per_hour",
    "discount",
    "upfront_usd",
    "already_paid",
    "until",
    "seen_on",
)

ROUNDING = 0.01
"""Discounts are given in full percents, so a commitment that is paid all upfront need not come out to the cent."""


def read_commitments(path: Path, offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """The commitments in the file, each to one of the machines in `offers`; none if the file does not exist."""
    file = read_machines_file(path)
    found = file.sections.get(COMMITMENTS, []) if file else []
    if file is None or found == []:
        return ()
    if not isinstance(found, list) or not all(isinstance(fields, dict) for fields in found):
        raise UsageError(f"{path}: write [[commitment]] in double brackets, one for each, and its fields below")
    machines: dict[str, list[Offer]] = {}
    for offer in offers:
        if offer.market != "own":
            machines.setdefault(offer.vm_type.key, []).append(offer)
    return tuple(
        _offer(FileSection(path, COMMITMENTS, fields, title=_title(number, fields)), machines, file.changed_on)
        for number, fields in enumerate(found, start=1)
    )


def _title(number: int, fields: object) -> str:
    """`[[commitment]] 2 (aws/p4d.24xlarge)`."""
    machine = fields.get("machine") if isinstance(fields, dict) else None
    return f"[[commitment]] {number}" + (f" ({machine})" if isinstance(machine, str) else "")


def _offer(section: FileSection, machines: Mapping[str, list[Offer]], changed_on: date) -> Offer:
    section.require_known(_KEYS)
    of_machine = _machine_offers(section, machines)
    vm_type = of_machine[0].vm_type
    region = _region(section, of_machine, machines)
    on_demand = next((o for o in of_machine if o.region == region and o.market == "on_demand"), None)
    commitment = _commitment(section, vm_type, region, on_demand.usd_per_hour if on_demand else None)
    until = section.day("until")
    try:
        return Offer(
            vm_type=vm_type,
            region=region,
            market="reserved",
            usd_per_hour=commitment.effective_usd_per_hour,
            seen_on=section.day("seen_on") or changed_on,
            source=SOURCE,
            retired_on=until + timedelta(days=1) if until else of_machine[0].retired_on,
            commitment=commitment,
        )
    except ValueError as error:
        raise section.error(str(error)) from error


def _machine_offers(section: FileSection, machines: Mapping[str, list[Offer]]) -> list[Offer]:
    """Every offer of the machine; its provider may be left out if only one provider has it."""
    name = (section.text("machine") or "").strip()
    if not name:
        raise section.error('machine is missing: which one is reserved? As in machine = "aws/p4d.24xlarge"')
    lowered = name.lower()
    keys = [key for key in machines if lowered in (key.lower(), key.lower().partition("/")[2])]
    if len(keys) > 1:
        raise section.error(f"{name} is a machine of more than one provider: write {' or '.join(keys)}")
    if not keys:
        known = machines if "/" in name else {key.partition("/")[2] for key in machines}
        raise section.error(
            f"there is no machine {name} in the catalog.{suggest(name, known)} `trainfare catalog list` shows all; "
            "describe a machine that is not listed as your own, in a section [name] with usd_per_hour."
        )
    return machines[keys[0]]


def _region(section: FileSection, of_machine: Sequence[Offer], machines: Mapping[str, list[Offer]]) -> str:
    """The stated region, which must be one of the provider; if none is stated, the only one of the machine."""
    vm_type, stated = of_machine[0].vm_type, section.text("region")
    listed = sorted({offer.region for offer in of_machine})
    if stated is None:
        if len(listed) > 1:
            raise section.error(f"region is missing: {vm_type.key} is offered in {', '.join(listed)}")
        return listed[0]
    known = {
        offer.region for offers in machines.values() for offer in offers if offer.vm_type.provider == vm_type.provider
    }
    region = {each.lower(): each for each in known}.get(stated.strip().lower())
    if region is None:
        raise section.error(f"{vm_type.provider} has no region {stated}.{suggest(stated, known)}")
    return region


def _commitment(section: FileSection, vm_type: VmType, region: str, on_demand: float | None) -> Commitment:
    months, upfront = section.positive_integer("months"), section.number("upfront_usd") or 0.0
    if months is None:
        raise section.error("months is missing: for how long is it reserved? 12 and 36 are usual")
    hourly, discount = section.number("usd_per_hour"), section.positive_number("discount")
    if hourly is not None and discount is not None:
        raise section.error("usd_per_hour and discount both give the price: leave one of them out")
    if discount is not None:
        if on_demand is None:
            raise section.error(f"{vm_type.key} has no price on demand in {region} to discount: give usd_per_hour")
        hourly = _discounted(section, discount, on_demand, upfront / (HOURS_PER_MONTH * months))
    if hourly is None and not upfront:
        raise section.error("usd_per_hour is missing, or discount: what does an hour of it cost?")
    try:
        return Commitment(
            months=months,
            upfront_usd=upfront,
            usd_per_hour=hourly or 0.0,
            held=section.flag("already_paid"),
            on_demand_usd_per_hour=on_demand,
        )
    except ValueError as error:
        raise section.error(str(error)) from error


def _discounted(section: FileSection, discount: float, on_demand: float, upfront_per_hour: float) -> float:
    """The rest to pay for each hour. A discount is off the full price, the upfront payment included."""
    if discount >= 1:
        raise section.error(f"discount must be a share below 1, as in 0.37 for 37%, got {discount:g}")
    full = (1 - discount) * on_demand
    if upfront_per_hour > full * (1 + ROUNDING):
        raise section.error(
            f"upfront_usd alone is {format_usd_per_hour(upfront_per_hour)}, more than the {format_usd_per_hour(full)} "
            f"that a discount of {format_percent(discount)} leaves of {format_usd_per_hour(on_demand)} on demand"
        )
    return max(0.0, full - upfront_per_hour)
