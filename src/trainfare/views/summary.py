"""A plan in a few lines: why, how sure, what would change it, and what else should be known.

All reasons of a plan are fifteen sentences or more. Here each question has one line, made from the same reasons.
"""

from collections.abc import Iterator, Mapping, Sequence

from trainfare.model.plan import Plan
from trainfare.model.reason import Reason
from trainfare.units import format_count, format_duration, format_percent, format_usd, plural
from trainfare.views.explain.certainty import OBJECTIVES, time_on_idle_machine
from trainfare.views.explain.why import cheapest_with_time
from trainfare.views.names import limits, machine
from trainfare.views.reasons import python_arguments, sentence
from trainfare.views.sentences import SpellArguments
from trainfare.views.values import Values, integer, number, optional_number, optional_text, text

WHY, SURE, CHANGES = "why", "how sure", "what if"
MAX_CHANGES = 2
"""The changes in one line."""
_CHANGES = (
    "rent_from_epochs",
    "rent_anyway",
    "other_batch_size",
    "spot_would_be_better",
    "split_would_be_better",
    "here_up_to_epochs",
    "looser_deadline",
    "looser_budget",
    "fewer_epochs",
    "more_epochs",
    "tighter_deadline",
    "tighter_budget",
    "price_rise",
    "best_for_any_epochs",
)
"""The reasons of which the first few are shown as changes, the most useful first."""
PRICE = "price"
_CAVEATS = {"epochs_assumed": "epochs", "epochs_expected": "epochs", "gpus_unknown": "GPUs"}
"""Assumptions that are always shown, and their heading."""


def plan_summary(plan: Plan, spell: SpellArguments = python_arguments) -> list[tuple[str, str]]:
    """The heading and the sentence of each line."""
    by_code: dict[str, Reason] = {}
    for reason in plan.reasons:
        by_code.setdefault(reason.code, reason)
    found = [(WHY, "; ".join(_why(plan, by_code, spell)))]
    if "price_is_old" in by_code:
        found.append((PRICE, sentence(by_code["price_is_old"], spell)))
    found.append((SURE, "; ".join(_certainty(plan, by_code, spell))))
    changes = [_change(by_code[code], spell) for code in _CHANGES if code in by_code][:MAX_CHANGES]
    if changes:
        found.append((CHANGES, "; ".join(changes)))
    found += [(heading, _caveat(by_code[code], spell)) for code, heading in _CAVEATS.items() if code in by_code]
    return [(heading, line) for heading, line in found if line]


def _why(plan: Plan, by_code: Mapping[str, Reason], spell: SpellArguments) -> Iterator[str]:
    if (best := by_code.get("best_candidate")) is not None:
        yield _best_of(best.values)
    for code in ("train_here", "renting_compared_with_here", "last_bit_of_speed"):
        if code in by_code and not (code == "renting_compared_with_here" and "train_here" in by_code):
            yield sentence(by_code[code], spell)
    if not {"best_candidate", "train_here"} & by_code.keys():
        yield from (sentence(each, spell) for each in _of_topic(plan, "why")[:1])


def _best_of(values: Values) -> str:
    """`cheapest of 181 machine types that end within 12 h with 90% confidence`."""
    goal, hour = text(values, "goal"), optional_number(values, "value_of_time_usd_per_hour")
    best = "best by these weights" if goal == "weighted" else goal
    best = best if hour is None else cheapest_with_time(values, hour)
    types = integer(values, "machine_types")
    within = limits(values, singular=types == 1)
    return f"{best} of {plural(types, 'machine type')}" + (f" that {within}" if within else "")


def _certainty(plan: Plan, by_code: Mapping[str, Reason], spell: SpellArguments) -> Iterator[str]:
    basis = next((reason for reason in plan.reasons if reason.code in _BASES), None)
    if basis is not None:
        yield _BASES[basis.code](basis.values)
    else:
        yield from (sentence(each, spell) for each in _of_topic(plan, "certainty")[:1])
    if (busy := by_code.get("busy_profile")) is not None:
        share = format_percent(round(number(busy.values, "share"), 2))
        yield f"the machine was busy during the profile: the program waited for a CPU {share} of the time"
        if (idle := optional_number(busy.values, "idle_here_seconds")) is not None:
            yield time_on_idle_machine(idle)
    if "data_wait_uncertain" in by_code:
        yield "most of it waits for data, which is the least certain part"
    if (uncertain := by_code.get("ranking_uncertain")) is not None:
        values = uncertain.values
        _, better = OBJECTIVES[text(values, "goal")]
        chance = format_percent(round(number(values, "probability"), 2))
        others = integer(values, "others")
        more = f", and so may {plural(others, 'other')}" if others else ""
        yield f"{machine(values)} may be {better} after all ({chance}){more}"


def _measured(values: Values) -> str:
    where = "here" if values.get("here") is True else "on this machine type"
    return f"measured {where} (profile {text(values, 'profile')})"


def _same_machine(values: Values) -> str:
    return f"scaled from profile {text(values, 'profile')} of the same machine at another batch size or number of GPUs"


def _slice(values: Values) -> str:
    return f"scaled from profile {text(values, 'profile')} by the cores of the two machines"


def _other_gpu(values: Values) -> str:
    gpu = optional_text(values, "from_gpu") or "another GPU"
    return f"scaled from profile {text(values, 'profile')} on {gpu} to {text(values, 'to_gpu')}"


def _other_cpu(values: Values) -> str:
    cpu = optional_text(values, "to_cpu") or "another CPU"
    method = "the speed of the cores alone" if values.get("by_operations") is False else "its operations"
    return f"scaled from profile {text(values, 'profile')} to {cpu} by {method}"


def _extrapolated(values: Values) -> str:
    return f"predicted from its operations, never measured on {optional_text(values, 'gpu') or 'such a machine'}"


_BASES = {
    "basis_measured": _measured,
    "basis_scaled_from_same_machine": _same_machine,
    "basis_scaled_from_slice": _slice,
    "basis_scaled_from_cpu": _other_cpu,
    "basis_scaled_from_gpu": _other_gpu,
    "basis_extrapolated": _extrapolated,
}


def _change(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    if reason.code == "other_batch_size":
        epochs = plural(integer(values, "epochs"), "epoch")
        return f"with {spell(reason.arguments)}: {machine(values)} ({_totals(values)}) if {epochs} are still enough"
    if reason.code == "spot_would_be_better":
        usd = format_usd(number(values, "usd"))
        return f"with {spell(reason.arguments)}: {machine(values)} ({usd}), which can be taken away at any moment"
    return sentence(reason, spell)


def _totals(values: Values) -> str:
    return f"{format_duration(number(values, 'seconds'))}, {format_usd(number(values, 'usd'))}"


def _caveat(reason: Reason, spell: SpellArguments) -> str:
    if reason.code == "epochs_assumed":
        epochs = format_count(integer(reason.values, "epochs"))
        return f"the program does not say how many, so {epochs} are assumed: pass {spell(reason.arguments)}"
    return sentence(reason, spell)


def _of_topic(plan: Plan, topic: str) -> Sequence[Reason]:
    return [reason for reason in plan.reasons if reason.topic == topic]
