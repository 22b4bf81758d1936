"""A split plan as sentences and as a JSON record."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from trainfare.model.reason import Reason
from trainfare.model.split import Segment, SplitPlan
from trainfare.units import (
    BYTES_PER_GIB,
    format_duration,
    format_number,
    format_percent,
    format_usd,
    plural,
)
from trainfare.views.estimates import estimate_record, spread
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, number, optional_number, optional_text, record, records, text

PART_NAMES = {"checkpoint": "write", "upload": "upload", "download": "download", "restore": "load"}
"""The step that each part of a migration performs on the checkpoint."""


def segment_epochs(segment: Segment) -> str:
    """`epoch 1`, `epochs 2 – 90`."""
    return _epochs(segment.first_epoch, segment.last_epoch)


def _epochs(first: int, last: int) -> str:
    return f"epoch {first}" if first == last else f"epochs {first} – {last}"


def _split_plan(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    first, second = (
        f"{_epochs(integer(s, 'first_epoch'), integer(s, 'last_epoch'))} on {text(s, 'machine')} ({_time_and_cost(s)})"
        for s in records(values, "segments")
    )
    total = f"split training: {first}, then {second}; {_time_and_cost(values)} in total"
    limits = _limits(values)
    within = f", within {limits} with {format_percent(number(values, 'confidence'))} confidence" if limits else ""
    single, saving = optional_text(values, "single_machine"), record(values, "saving")
    if single is None or saving is None:
        said = f"{total}{within}; no single machine is within the limits"
    else:
        said = f"{total}{within}; it saves {_saving(saving)} relative to {single} alone"
    return f"{said}; to plan it, pass {spell(reason.arguments)}" if reason.arguments else said


def _time_and_cost(values: Values) -> str:
    return f"{format_duration(number(values, 'seconds'))}, {format_usd(number(values, 'usd'))}"


def _limits(values: Values) -> str:
    deadline, budget = optional_number(values, "deadline_seconds"), optional_number(values, "budget_usd")
    limits = [] if deadline is None else [format_duration(deadline)]
    return " and ".join(limits if budget is None else [*limits, format_usd(budget)])


def _saving(saving: Values) -> str:
    share = format_percent(round(number(saving, "share"), 2))
    quantity = text(saving, "quantity")
    if quantity == "score":
        return f"{share} of the weighted sum of time and cost"
    spell = format_usd if quantity == "usd" else format_duration
    low, high = spell(number(saving, "low")), spell(number(saving, "high"))
    confidence = format_percent(number(saving, "confidence"))
    return f"{spell(number(saving, 'amount'))} ({share}; {confidence} interval {low} – {high})"


def _early_target_expected(values: Values) -> str:
    low, high = number(values, "epochs_low"), number(values, "epochs_high")
    interval = f" ({format_percent(number(values, 'confidence'))} interval {low:.0f} – {high:.0f})"
    limit, sure = optional_number(values, "limit_seconds"), optional_number(values, "bound_confidence")
    with_confidence = "" if sure is None else f" with {format_percent(sure)} confidence"
    within = "" if limit is None else f"; the limit is {format_duration(limit)}"
    return (
        f"{text(values, 'metric')} is expected to reach {number(values, 'value'):g} after epoch "
        f"{number(values, 'epochs'):.0f}{'' if low == high else interval}, "
        f"{format_duration(number(values, 'seconds'))} after the start "
        f"(at most {format_duration(number(values, 'seconds_high'))}{with_confidence}){within}"
    )


def _migration_cost(values: Values) -> str:
    """`… (checkpoint of 0.28 GiB: write 2.4 s, upload 2.8 s, download 2.8 s, load 2.4 s; assumed)`."""
    size = optional_number(values, "bytes")
    parts = [part for part in records(values, "parts") if part["basis"] != "nothing"]
    steps = ", ".join(f"{PART_NAMES[text(p, 'part')]} {format_duration(number(p, 'seconds'))}" for p in parts)
    basis = " and ".join(dict.fromkeys(text(part, "basis") for part in parts))
    return (
        f"the migration takes {format_duration(number(values, 'seconds'))} and costs "
        f"{format_usd(number(values, 'usd'))} (checkpoint of {'unknown size' if size is None else _size(size)}: "
        f"{steps}; {basis}); starting the second machine takes {format_duration(number(values, 'start_seconds'))}, "
        "which is part of its segment"
    )


def _size(size: float) -> str:
    gib = size / BYTES_PER_GIB
    return f"{format_number(gib)} GiB" if gib >= 0.1 else f"{format_number(gib * 1024)} MiB"


def _split_deltas(values: Values) -> str:
    each = (f"{number(m, 'delta'):.2g} on {text(m, 'machine')}" for m in records(values, "machines"))
    return f"speed-up divided by cost ratio of one epoch (Δ), relative to the cheapest epochs: {', '.join(each)}"


def _split_progress(values: Values) -> str:
    parts = []
    for segment in records(values, "segments"):
        first, last = integer(segment, "first_epoch"), integer(segment, "last_epoch")
        parts.append(
            f"{_epochs(first, last)} change{'s' if first == last else ''} {text(segment, 'metric')} from "
            f"{format_number(number(segment, 'before'))} to {format_number(number(segment, 'after'))}, "
            f"{number(segment, 'change_per_usd'):.2g} per dollar"
        )
    return f"by the fitted curve, {'; '.join(parts)}"


def _program_must_resume(values: Values) -> str:
    after = integer(values, "after")
    if values["writes_checkpoints"]:
        return f"the program must be able to resume from its own checkpoint of epoch {after}"
    return (
        f"the program must write a checkpoint after epoch {after} and be able to resume from it; the profile saw no "
        "checkpoint, and without one the second segment would start from epoch 1"
    )


def _no_split_within_limits(values: Values) -> str:
    return f"no split over two machines is within {_limits(values) or 'the limit of the early target'} either"


def _no_split_is_better(values: Values) -> str:
    limits = _limits(values) or "the limit of the early target"
    return f"within {limits}, no split over two machines is better than one machine once the migration is paid"


def _split_saving_uncertain(values: Values) -> str:
    single = f"{format_duration(number(values, 'single_seconds'))} and {format_usd(number(values, 'single_usd'))}"
    return (
        f"{plural(integer(values, 'after'), 'epoch')} on {text(values, 'first')} and the rest on "
        f"{text(values, 'second')} would take {format_duration(number(values, 'seconds'))} and cost "
        f"{format_usd(number(values, 'usd'))}, compared with {single} on {text(values, 'single_machine')}; the saving "
        "is smaller than its uncertainty, so one machine is recommended"
    )


def _split_needs_limit(_values: Values) -> str:
    return "without a deadline, a budget or an early target, a split over two machines is never better than one machine"


def _one_epoch_cannot_be_split(_values: Values) -> str:
    return "a training of one epoch cannot be split: a migration comes at the end of an epoch"


def _split_not_on_spot(_values: Values) -> str:
    return (
        "within a deadline no split is planned on spot machines, because the waiting time for the next spot machine is "
        "only estimated for a single machine"
    )


SENTENCES: Mapping[str, Sentence] = {
    "split_plan": _split_plan,
    **from_values(
        {
            "early_target_expected": _early_target_expected,
            "migration_cost": _migration_cost,
            "split_deltas": _split_deltas,
            "split_progress": _split_progress,
            "program_must_resume": _program_must_resume,
            "no_split_within_limits": _no_split_within_limits,
            "no_split_is_better": _no_split_is_better,
            "split_saving_uncertain": _split_saving_uncertain,
            "split_needs_limit": _split_needs_limit,
            "one_epoch_cannot_be_split": _one_epoch_cannot_be_split,
            "split_not_on_spot": _split_not_on_spot,
        }
    ),
}
"""The sentence of each reason about split plans, by its code."""


def split_record(plan: SplitPlan) -> dict[str, Any]:
    """The segments in order, the migration between them, and the totals."""
    migration, saving, early = plan.migration, plan.saving, plan.early_target
    return {
        "legs": [
            {
                "first_epoch": segment.first_epoch,
                "last_epoch": segment.last_epoch,
                "delta": segment.delta,
                "progress": None if segment.progress is None else asdict(segment.progress),
                **estimate_record(segment.estimate),
            }
            for segment in plan.segments
        ],
        "move": {
            **spread("seconds", migration.seconds),
            **spread("usd", migration.usd),
            "parts": {name: {**spread("seconds", p.seconds), "how": p.how} for name, p in migration.parts.items()},
        },
        **spread("seconds", plan.seconds),
        **spread("usd", plan.usd),
        "instead_of": None if plan.single_machine is None else estimate_record(plan.single_machine),
        "saving": None
        if saving is None
        else {"quantity": saving.quantity, "share": saving.share, **spread("amount", saving.amount)},
        "reached": None if early is None else {**asdict(early.target), **spread("epochs", early.epochs)},
    }
