"""Sentences about the machine at hand: why to train here, and what renting saves and costs."""

from collections.abc import Mapping

from trainfare.model.reason import Reason
from trainfare.units import format_duration, format_usd, plural
from trainfare.views.names import described_machine, limits, machine
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, flag, integer, length, number, optional_number, record, text


def _train_here(values: Values) -> str:
    rule, rental = text(values, "rule"), record(values, "rental")
    cost = "at no cost" if not number(values, "usd") else f"for {format_usd(number(values, 'usd'))}"
    renting = "" if rental is None else f"; renting {_offered(rental)}"
    idle = optional_number(values, "idle_seconds")
    busy = "" if idle is None else f"without other work on this machine, about {format_duration(idle)}: "
    if rule == "soon":
        return f"{busy}it ends within {format_duration(number(values, 'soon_seconds'))} here, {cost}{renting}"
    if rule == "no_sooner":
        fastest = "" if rental is None else f": the fastest, {_offered(rental)}"
        return f"{busy}no machine to rent would end sooner than here, {cost}{fastest}"
    if rule == "in_time":
        return f"here it would {limits(values)}, {cost}{renting}"
    if rule == "best":
        return f"{_goal(values)} of {plural(integer(values, 'rentals') + 1, 'candidate')}, {cost}{renting}"
    if integer(values, "rentals"):
        return f"no machine to rent would {limits(values) or 'do'}; here it would, {cost}"
    return f"it is the only candidate ({cost}): no machine to rent is in scope, or the profile says nothing about any"


def _goal(values: Values) -> str:
    hour = optional_number(values, "value_of_time_usd_per_hour")
    if hour is not None:
        return f"cheapest, with your time at {format_usd(hour)} an hour,"
    goal = text(values, "goal")
    return "best by these weights" if goal == "weighted" else goal


def _offered(rental: Values) -> str:
    seconds, usd = format_duration(number(rental, "seconds")), format_usd(number(rental, "usd"))
    return f"{described_machine(rental)} would take {seconds} and cost {usd}"


def _renting_compared_with_here(values: Values) -> str:
    """`renting ends 6 h 10 min sooner than training here, for $1.20 ($0.19 an hour saved)`."""
    saved, price = number(values, "saved_seconds"), optional_number(values, "usd_per_hour_saved")
    what = f"renting {machine(values)} would end" if flag(values, "chosen_is_here") else "renting ends"
    than = "" if flag(values, "chosen_is_here") else " than training here"
    when = f"{format_duration(abs(saved))} {'sooner' if saved >= 0 else 'later'}"
    each = "" if price is None else f" ({format_usd(price)} an hour saved)"
    return f"{what} {when}{than}, {_more(values)}{each}"


def _more(values: Values) -> str:
    usd, here = number(values, "more_usd"), number(values, "here_usd")
    if not here:
        return f"for {format_usd(usd)}"
    return f"for {format_usd(usd)} more" if usd >= 0 else f"for {format_usd(-usd)} less"


def _rent_anyway(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    totals = f"{format_duration(number(values, 'seconds'))}, {format_usd(number(values, 'usd'))}"
    return f"with {spell(reason.arguments)}: {machine(values)} ({totals})"


def _rent_from_epochs(values: Values) -> str:
    return f"with {length(values)} or more: rent {machine(values)}"


def _here_up_to_epochs(values: Values) -> str:
    return f"with {length(values)}{'' if length(values) == '1 epoch' else ' or fewer'}: train here"


def _here_is_free(_values: Values) -> str:
    return "this machine is counted as free; a price of its hours can be stated in machines.toml, in a section [here]"


SENTENCES: Mapping[str, Sentence] = {
    "rent_anyway": _rent_anyway,
    **from_values(
        {
            "train_here": _train_here,
            "renting_compared_with_here": _renting_compared_with_here,
            "rent_from_epochs": _rent_from_epochs,
            "here_up_to_epochs": _here_up_to_epochs,
            "here_is_free": _here_is_free,
        }
    ),
}
