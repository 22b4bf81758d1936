"""Sentences about what is charged."""

from collections.abc import Mapping
from datetime import date

from trainfare.model.reason import Reason
from trainfare.units import (
    format_age,
    format_count,
    format_duration,
    format_ratio,
    format_usd,
    format_usd_per_hour,
    plural,
)
from trainfare.views.explain.why import break_even, months
from trainfare.views.names import machine
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, number, optional_text, record, text


def _long_start(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    return (
        f"starting the machine (boot, setup, copying the data) takes "
        f"{format_duration(number(values, 'starting_seconds'))} of the {format_duration(number(values, 'seconds'))}; "
        f"if yours starts faster, pass {spell(reason.arguments)}"
    )


def _unused_time(values: Values) -> str:
    return f"{format_usd(number(values, 'usd'))} of the cost is for time it does not need: {text(values, 'how')}"


def _share(values: Values) -> str:
    price, total = number(values, "usd_per_hour"), number(values, "total_usd")
    return f"{format_usd_per_hour(price)}, its share of the {format_usd(total)}"


def _held_commitment(values: Values) -> str:
    return (
        f"you hold it for {months(values)}, paid whether it is used or not: the cost is calculated at {_share(values)} "
        "in total; apart from storage and egress, the run adds nothing to what you pay"
    )


def _commitment_share(values: Values) -> str:
    hours, total = number(values, "training_hours"), number(values, "commitment_hours")
    return (
        f"the cost is calculated at {_share(values)} for {months(values)} of one machine, paid whether it is used or "
        f"not; this training takes {format_count(hours)} of {format_count(total)} hours"
    )


def _commitment_break_even(values: Values) -> str:
    return f"a commitment of {months(values)} {break_even(values)}"


def _spot_interruptions(values: Values) -> str:
    count, low, high = number(values, "interruptions"), number(values, "low"), number(values, "high")
    return (
        f"on spot, {format_count(count)} interruptions are expected (90%: {low:.0f} to {high:.0f}), which add "
        f"{format_duration(number(values, 'rework_seconds'))}; the rate is from {text(values, 'source')}"
    )


def _no_checkpoints(_values: Values) -> str:
    return "it writes no checkpoint in that time, so an interruption restarts it from the beginning"


def _own_checkpoints(values: Values) -> str:
    return (
        f"its own checkpoints are {format_duration(number(values, 'every_seconds'))} apart; after an interruption it "
        "must resume from the last one by itself"
    )


def _assumed_checkpoints(values: Values) -> str:
    return (
        f"a checkpoint every {format_duration(number(values, 'every_seconds'))} is assumed, from which the program "
        "resumes; the profile saw none, and without one an interruption restarts it from the beginning"
    )


def _spot_price_age(values: Values) -> str:
    return (
        f"its spot price is {_age(values)}: nine in ten prices of that age were within a factor of "
        f"{format_ratio(number(values, 'factor')).removesuffix('x')} of the current price, which the interval does not "
        "include"
    )


def _age(values: Values) -> str:
    return format_age(date.fromisoformat(text(values, "seen_on")), date.fromisoformat(text(values, "today")))


def _price_seen(values: Values) -> str:
    billing = optional_text(values, "billing")
    charged = "" if billing is None else f", charged {billing}"
    return f"its price was seen on {text(values, 'seen_on')} ({_age(values)}){charged}"


def _price_is_old(values: Values) -> str:
    """The reasons of older plans have only the days."""
    renewed = "`trainfare catalog update` renews prices"
    described = record(values, "machine")
    if described is not None and values.get("renewable") is False:
        renewed = f"`trainfare catalog update` has none of {text(described, 'provider')}: look it up there"
    chosen = "its price" if described is None else f"the price of {machine(values)}"
    old = f"{chosen} is {_age(values)} and may have changed"
    if record(values, "newer") is None:
        return f"{old}: {renewed}"
    days = integer(values, "newer_days")
    seen = "today" if not days else f"{plural(days, 'day')} ago"
    totals = f"{format_duration(number(values, 'newer_seconds'))}, {format_usd(number(values, 'newer_usd'))}"
    return f"{old}; by a price of {seen}, {machine(values, 'newer')} is the best: {totals}; {renewed}"


def _billing_assumed(values: Values) -> str:
    return f"the billing rule of {text(values, 'provider')} is not known; billing by the minute is assumed"


def _no_longer_rentable(values: Values) -> str:
    since = optional_text(values, "since")
    return f"{machine(values)} can no longer be rented" + ("" if since is None else f" since {since}")


SENTENCES: Mapping[str, Sentence] = {
    "long_start": _long_start,
    **from_values(
        {
            "unused_time": _unused_time,
            "held_commitment": _held_commitment,
            "commitment_share": _commitment_share,
            "commitment_break_even": _commitment_break_even,
            "spot_interruptions": _spot_interruptions,
            "no_checkpoints": _no_checkpoints,
            "own_checkpoints": _own_checkpoints,
            "assumed_checkpoints": _assumed_checkpoints,
            "spot_price_age": _spot_price_age,
            "price_seen": _price_seen,
            "price_is_old": _price_is_old,
            "billing_assumed": _billing_assumed,
            "no_longer_rentable": _no_longer_rentable,
        }
    ),
}
