"""Machines reserved for months: `[[commitment]]` of the user's `machines.toml` → offers on the market "reserved".

[[commitment]]
machine = "aws/p4d.24xlarge"     as `trainfare catalog list` names it
region = "us-east-1"             may be left out where the machine is offered in one region alone
months = 12
usd_per_hour = 12.5              what is paid as the hours pass; or
discount = 0.37                  off the price on demand, the upfront payment included
upfront_usd = 40_000             absent: nothing
already_paid = true              absent: it is still to be bought
until = 2027-06-30               its last day; absent: it is not over
seen_on = 2026-11-01             absent: the day the file was changed

Prices of commitments are agreed with the provider or depend on the day: none is shipped.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from trainfare.catalog.own import SOURCE
from trainfare.catalog.own_file import COMMITMENTS, FileSection, guess, read_machines_file
from trainfare.errors import UsageError
from trainfare.model.machine import VmType
from trainfare.model.offer import HOURS_PER_MONTH, Commitment, Offer

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

ROUNDED = 0.01
"""Discounts are told in whole percents: paid all upfront, they need not come out to the cent."""


def read_commitments(path: Path, offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Those of the file; `offers` are the machines that can be meant. A file that is not there holds none."""
    file = read_machines_file(path)
    found = file.tables.get(COMMITMENTS, []) if file else []
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


def _offer(table: FileSection, machines: Mapping[str, list[Offer]], changed_on: date) -> Offer:
    table.require_known(_KEYS)
    there = _machine(table, machines)
    region = _region(table, there, machines)
    on_demand = next((o for o in there if o.region == region and o.market == "on_demand"), None)
    commitment = _commitment(table, there[0].vm_type, region, on_demand.usd_per_hour if on_demand else None)
    until = table.day("until")
    try:
        return Offer(
            vm_type=there[0].vm_type,
            region=region,
            market="reserved",
            usd_per_hour=commitment.effective_usd_per_hour,
            seen_on=table.day("seen_on") or changed_on,
            source=SOURCE,
            retired_on=until + timedelta(days=1) if until else there[0].retired_on,
            commitment=commitment,
        )
    except ValueError as error:
        raise table.wrong(str(error)) from error


def _machine(table: FileSection, machines: Mapping[str, list[Offer]]) -> list[Offer]:
    """Every offer of the machine that is meant; its provider may be left out where one alone has it."""
    name = (table.text("machine") or "").strip()
    if not name:
        raise table.wrong('machine is missing: which one is reserved? As in machine = "aws/p4d.24xlarge"')
    wanted = name.lower()
    keys = [key for key in machines if wanted in (key.lower(), key.lower().partition("/")[2])]
    if len(keys) > 1:
        raise table.wrong(f"{name} is a machine of more than one provider: say {' or '.join(keys)}")
    if not keys:
        known = machines if "/" in name else {key.partition("/")[2] for key in machines}
        raise table.wrong(
            f"there is no machine {name} in the catalog.{guess(name, known)} `trainfare catalog list` shows all; one "
            "that nobody lists can stand here as your own, [name] with usd_per_hour."
        )
    return machines[keys[0]]


def _region(table: FileSection, there: Sequence[Offer], machines: Mapping[str, list[Offer]]) -> str:
    """One in which the machine is listed; at a price of one's own, any in which its provider has machines."""
    vm_type, stated = there[0].vm_type, table.text("region")
    listed = sorted({offer.region for offer in there})
    if stated is None:
        if len(listed) > 1:
            raise table.wrong(f"region is missing: {vm_type.key} is offered in {', '.join(listed)}")
        return listed[0]
    known = {
        offer.region for offers in machines.values() for offer in offers if offer.vm_type.provider == vm_type.provider
    }
    region = {each.lower(): each for each in known}.get(stated.strip().lower())
    if region is None:
        raise table.wrong(f"{vm_type.provider} has no region {stated}.{guess(stated, known)}")
    return region


def _commitment(table: FileSection, vm_type: VmType, region: str, on_demand: float | None) -> Commitment:
    months, upfront = table.whole("months"), table.amount("upfront_usd") or 0.0
    if months is None:
        raise table.wrong("months is missing: for how long is it reserved? 12 and 36 are usual")
    hourly, discount = table.amount("usd_per_hour"), table.number("discount")
    if hourly is not None and discount is not None:
        raise table.wrong("usd_per_hour and discount both say the price: leave one of them out")
    if discount is not None:
        if on_demand is None:
            raise table.wrong(f"{vm_type.key} has no price on demand in {region} to discount: give usd_per_hour")
        hourly = _discounted(table, discount, on_demand, upfront / (HOURS_PER_MONTH * months))
    if hourly is None and not upfront:
        raise table.wrong("usd_per_hour is missing, or discount: what does an hour of it cost?")
    try:
        return Commitment(
            months=months,
            upfront_usd=upfront,
            usd_per_hour=hourly or 0.0,
            held=table.flag("already_paid"),
            on_demand_usd_per_hour=on_demand,
        )
    except ValueError as error:
        raise table.wrong(str(error)) from error


def _discounted(table: FileSection, discount: float, on_demand: float, upfront_an_hour: float) -> float:
    """What is left to pay as the hours pass. Discounts are told of the whole price, the upfront payment included."""
    if discount >= 1:
        raise table.wrong(f"discount must be a share below 1, as in 0.37 for 37 %, got {discount:g}")
    whole = (1 - discount) * on_demand
    if upfront_an_hour > whole * (1 + ROUNDED):
        raise table.wrong(
            f"upfront_usd alone is {upfront_an_hour:.4g} $ an hour, more than the {whole:.4g} $ that a discount of "
            f"{discount:g} leaves of {on_demand:.4g} $ on demand"
        )
    return max(0.0, whole - upfront_an_hour)
