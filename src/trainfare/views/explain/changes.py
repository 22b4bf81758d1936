"""Sentences about what would change a choice."""

from collections.abc import Mapping

from trainfare.model.reason import Reason
from trainfare.units import format_duration, format_usd, format_usd_per_hour, plural
from trainfare.views.names import machine
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, length, number, optional_number, record, text


def _best_for_any_epochs(values: Values) -> str:
    return f"it is the {text(values, 'goal')} for any number of epochs{_at_batch_size(values)}"


def _other_batch_size(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    return (
        f"with {spell(reason.arguments)}: {_totals(values)}, if {plural(integer(values, 'epochs'), 'epoch')} are "
        "enough at that batch size too, which is a guess: so it is not chosen unasked"
    )


def _fewer_epochs(values: Values) -> str:
    fewer = "" if length(values) == "1 epoch" else " or fewer"
    return f"with {length(values)}{fewer}{_at_batch_size(values)}: {machine(values)}"


def _more_epochs(values: Values) -> str:
    return f"with {length(values)} or more{_at_batch_size(values)}: {machine(values)}"


def _at_batch_size(values: Values) -> str:
    size = optional_number(values, "batch_size")
    return "" if size is None else f" at batch size {size:.0f}"


def _epochs_within_deadline(values: Values) -> str:
    return f"up to {length(values)} are within the deadline"


def _looser_limit(reason: Reason, spell: SpellArguments) -> str:
    return f"with {spell(reason.arguments)}: {_totals(reason.values)}"


def _tighter_deadline(reason: Reason, spell: SpellArguments) -> str:
    below = format_duration(number(reason.values, "below"))
    return f"with a deadline below {below}: {_totals(reason.values)}, down to {spell(reason.arguments)}"


def _tighter_budget(reason: Reason, spell: SpellArguments) -> str:
    below = format_usd(number(reason.values, "below"))
    return f"with a budget below {below}: {_totals(reason.values)}, down to {spell(reason.arguments)}"


def _totals(values: Values) -> str:
    described = record(values, "machine") or {}
    risk = ", unless interruptions delay it" if described.get("market") == "spot" else ""
    totals = f"{format_duration(number(values, 'seconds'))}, {format_usd(number(values, 'usd'))}"
    return f"{machine(values)} ({totals}{risk})"


def _price_rise(values: Values) -> str:
    price, now = number(values, "break_even_usd_per_hour"), number(values, "usd_per_hour")
    return (
        f"if the price of {machine(values)} rises above {format_usd_per_hour(price)} (now {format_usd_per_hour(now)}): "
        f"{machine(values, 'other')}"
    )


SENTENCES: Mapping[str, Sentence] = {
    "looser_deadline": _looser_limit,
    "looser_budget": _looser_limit,
    "tighter_deadline": _tighter_deadline,
    "tighter_budget": _tighter_budget,
    "other_batch_size": _other_batch_size,
    **from_values(
        {
            "best_for_any_epochs": _best_for_any_epochs,
            "fewer_epochs": _fewer_epochs,
            "more_epochs": _more_epochs,
            "epochs_within_deadline": _epochs_within_deadline,
            "price_rise": _price_rise,
        }
    ),
}
