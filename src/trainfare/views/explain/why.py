"""Sentences about why a candidate was chosen."""

from collections.abc import Callable, Mapping

from trainfare.model.offer import HOURS_PER_MONTH
from trainfare.model.reason import Reason
from trainfare.recommender.pareto import MAX_COST_RATIO
from trainfare.units import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_ratio,
    format_usd,
    format_usd_per_hour,
    plural,
)
from trainfare.views.names import described_machine, limits, machine
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, number, optional_number, records, text

BOTTLENECKS = {
    "compute": "arithmetic",
    "memory bandwidth": "memory bandwidth",
    "launches": "launching kernels, not by the GPU: a faster GPU gains little",
    "network": "adding up gradients between GPUs",
    "data": "waiting for data, not by the GPU: a faster GPU gains little",
}
"""The bottleneck of an iteration, in words."""
WITHOUT_GPU = {
    "launches": "starting operations, which one thread does: more cores gain little",
    "data": "waiting for data, not by computing: faster cores gain little",
}
"""The bottlenecks that have other words on a machine without a GPU."""

SAME_RATIO = 0.001
"""A ratio within this distance of 1 is called the same."""
MIN_SAVING = 0.005
"""A smaller saving would be rounded to 0%."""


def _no_single_machine_within_limits(values: Values) -> str:
    return f"none of {plural(integer(values, 'candidates'), 'candidate')} alone would {limits(values)}"


def _best_candidate(values: Values) -> str:
    """`cheapest of 1,312 candidates (181 machine types, up to 4 nodes, 3 batch sizes) that end within …`."""
    goal, candidates = text(values, "goal"), integer(values, "candidates")
    best = "best by these weights" if goal == "weighted" else goal
    if (hour := optional_number(values, "value_of_time_usd_per_hour")) is not None:
        best = cheapest_with_time(values, hour)
    within = limits(values, singular=candidates == 1)
    left_out = "".join(f"; {sentence}" for sentence in _left_out(values))
    return (
        f"{best} of {plural(candidates, 'candidate')} ({_variety(values)})"
        + (f" that {within}" if within else "")
        + left_out
    )


def cheapest_with_time(values: Values, usd_per_hour: float) -> str:
    """`cheapest, with your time at $30.00 an hour ($3.22 in all),`."""
    total = optional_number(values, "usd_with_time")
    in_all = "" if total is None else f" ({format_usd(total)} in all)"
    return f"cheapest, with your time at {format_usd(usd_per_hour)} an hour{in_all},"


def _variety(values: Values) -> str:
    nodes, sizes = integer(values, "max_nodes"), integer(values, "batch_sizes")
    found = [plural(integer(values, "machine_types"), "machine type")]
    if nodes > 1:
        found.append(f"up to {nodes} nodes")
    if sizes > 1:
        found.append(f"{sizes} batch sizes")
    return ", ".join(found)


def _left_out(values: Values) -> list[str]:
    found = []
    if beyond := integer(values, "beyond_limits"):
        found.append(f"{format_count(beyond)} more would not")
    if risky := integer(values, "spot_too_risky"):
        are = "is" if risky == 1 else "are"
        found.append(f"{plural(risky, 'spot offer')} {are} rejected because of the risk of interruptions")
    if late := integer(values, "too_late_for_early_target"):
        found.append(f"{format_count(late)} that would be better would reach the early target too late")
    if slower := int(optional_number(values, "slower_than_here") or 0):
        found.append(f"{format_count(slower)} more would end no sooner than here")
    if guessed := int(optional_number(values, "epochs_guessed") or 0):
        found.append(f"{format_count(guessed)} at other batch sizes are not considered, as their epochs are a guess")
    if large := integer(values, "does_not_fit"):
        found.append(f"{format_count(large)} {'does' if large == 1 else 'do'} not fit in memory")
    return found


def _weights(values: Values) -> str:
    w, hour = number(values, "weight_time"), optional_number(values, "usd_per_hour")
    said = (
        f"with weights of {format_number(w)} for time and {format_number(1 - w)} for cost, it takes "
        f"{format_ratio(number(values, 'time_ratio'))} the least time and costs "
        f"{format_ratio(number(values, 'cost_ratio'))} the least cost, a score of "
        f"{format_number(number(values, 'score'))}"
    )
    return said if hour is None else f"{said}; these weights value an hour at {format_usd(hour)}"


def _limited_by(values: Values) -> str:
    gpus = integer(values, "gpus")
    on = f" on {gpus} GPUs" if gpus > 1 else ""
    return (
        f"an iteration takes {format_duration(number(values, 'iteration_seconds'))}{on}, limited by "
        f"{bottleneck(text(values, 'limited_by'), gpus)}"
    )


def bottleneck(limit: str, gpus: int) -> str:
    """The words for what limits an iteration on that many GPUs."""
    return BOTTLENECKS[limit] if gpus else WITHOUT_GPU.get(limit, BOTTLENECKS[limit])


def _other_extreme(values: Values) -> str:
    """Old plans name the very fastest, whatever it costs; newer ones the fastest within ten times the cost."""
    within = f" within {MAX_COST_RATIO:.0f}x the cost" if text(values, "kind") == "fastest" and "usd" in values else ""
    return f"the {text(values, 'kind')}{within}, {machine(values)}, {_ratios(values)}"


def _ratios(values: Values) -> str:
    time, cost = number(values, "time_ratio"), optional_number(values, "cost_ratio")
    costs = format_usd(number(values, "usd")) if cost is None else f"{format_ratio(cost)} as much"
    return f"takes {format_ratio(time)} the time and costs {costs}"


def _last_bit_of_speed(values: Values) -> str:
    return (
        f"{machine(values)} takes {format_duration(number(values, 'seconds'))} and costs "
        f"{format_usd(number(values, 'usd'))}: the last {format_duration(number(values, 'saved_seconds'))} cost "
        f"{format_usd(number(values, 'more_usd'))} ({format_usd(number(values, 'usd_per_hour_saved'))} an hour saved)"
    )


def _runners_up(values: Values) -> str:
    """`next: aws g6.xlarge (+1 h 25 min, +$0.12), …`."""
    others = (f"{described_machine(each)} ({_differences(each)})" for each in records(values, "machines"))
    return f"next: {'; '.join(others)}"


def _differences(values: Values) -> str:
    time = _signed(number(values, "more_seconds"), number(values, "time_ratio"), "time", format_duration)
    cost = _signed(number(values, "more_usd"), optional_number(values, "cost_ratio"), "cost", format_usd)
    return f"{time}, {cost}"


def _signed(amount: float, ratio: float | None, name: str, spell: Callable[[float], str]) -> str:
    if not amount or (ratio is not None and abs(ratio - 1) < SAME_RATIO):
        return f"the same {name}"
    return f"+{spell(amount)}" if amount >= 0 else f"−{spell(-amount)}"


def _chosen_is_knee(values: Values) -> str:
    return (
        f"it is the knee of the {integer(values, 'front')} candidates on the Pareto front: more speed costs much more"
    )


def _knee(values: Values) -> str:
    return f"more speed costs much more beyond {machine(values)}, the knee of the Pareto front, which {_ratios(values)}"


def _chosen_is_baseline(_values: Values) -> str:
    return "it is the baseline itself"


def _compared_with_baseline(values: Values) -> str:
    return (
        f"compared with {machine(values)} it is {format_ratio(number(values, 'speed_up'))} as fast for "
        f"{format_ratio(number(values, 'cost_ratio'))} the cost: Δ, the speed-up divided by the cost ratio, is "
        f"{format_number(number(values, 'delta'))}"
    )


def _spot_would_be_better(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    count = optional_number(values, "interruptions")
    included = "" if count is None else f", including {format_count(count)} expected interruptions"
    return (
        f"{machine(values)} would cost {format_usd(number(values, 'usd'))}{included}; it can be taken away at any "
        f"moment, so spot is considered only with {spell(reason.arguments)}"
    )


def _commitment_would_be_better(reason: Reason, spell: SpellArguments) -> str:
    values = reason.values
    return (
        f"with a commitment of {months(values)}, {machine(values)} would cost {format_usd(number(values, 'usd'))}; "
        f"it {break_even(values)}, so it is considered only with {spell(reason.arguments)}"
    )


def months(values: Values) -> str:
    """`12 months`."""
    return plural(integer(values, "months"), "month")


def break_even(values: Values) -> str:
    """`pays off above 460 hours a month (63% of the time) compared with on demand at $0.53/h`."""
    hours, price = optional_number(values, "break_even_hours"), optional_number(values, "on_demand_usd_per_hour")
    if hours is None or price is None:
        return "cannot be compared with on demand, which has no price there"
    on_demand = f"on demand at {format_usd_per_hour(price)}"
    if hours >= HOURS_PER_MONTH:
        return f"never pays off compared with {on_demand}"
    share = format_percent(round(hours / HOURS_PER_MONTH, 2))
    return f"pays off above {format_count(round(hours))} hours a month ({share} of the time) compared with {on_demand}"


def _held_machine_is_idle(values: Values) -> str:
    return (
        f"{machine(values)} is already paid for: it would take {format_ratio(number(values, 'time_ratio'))} the time "
        "and, if no other training needs it then, add nothing to its price; its share of what was paid is "
        f"{format_usd(number(values, 'usd'))}"
    )


def _spot_deadline_risk(values: Values) -> str:
    return (
        f"on spot alone it ends after the deadline of {format_duration(number(values, 'deadline_seconds'))} with a "
        f"probability of {probability(number(values, 'late'))}: on average a machine stays for "
        f"{format_duration(number(values, 'stay_seconds'))} and the next one takes "
        f"{format_duration(number(values, 'wait_seconds'))} to arrive, according to {text(values, 'source')}"
    )


def _no_time_for_spot(values: Values) -> str:
    return (
        f"the deadline of {format_duration(number(values, 'deadline_seconds'))} leaves no time to wait for spot: on "
        f"demand takes {format_duration(number(values, 'on_demand_seconds'))} and costs "
        f"{format_usd(number(values, 'on_demand_usd'))}"
    )


def _fallback_to_on_demand(values: Values) -> str:
    saving = number(values, "saving")
    compared = f"{format_percent(round(saving, 2))} less than" if saving >= MIN_SAVING else "no less than"
    return (
        f"with a fallback to on demand, at the latest {format_duration(number(values, 'latest_seconds'))} after the "
        f"start and later by the work that is saved by then, it costs {format_usd(number(values, 'usd'))} on average, "
        f"{compared} on demand alone; the fallback is needed with a probability of "
        f"{probability(number(values, 'probability'))}"
    )


def _late_even_on_demand(values: Values) -> str:
    return (
        f"even on demand it ends after the deadline of {format_duration(number(values, 'deadline_seconds'))} with a "
        f"probability of {probability(number(values, 'late'))}"
    )


def probability(value: float) -> str:
    """`3%`, `less than 1%`, `more than 99%`: no more digits than the traces support."""
    if value < 0.01:
        return "less than 1%"
    if value > 0.99:
        return "more than 99%"
    return format_percent(round(value, 2))


SENTENCES: Mapping[str, Sentence] = {
    "spot_would_be_better": _spot_would_be_better,
    "commitment_would_be_better": _commitment_would_be_better,
    **from_values(
        {
            "no_single_machine_within_limits": _no_single_machine_within_limits,
            "best_candidate": _best_candidate,
            "weights": _weights,
            "limited_by": _limited_by,
            "other_extreme": _other_extreme,
            "last_bit_of_speed": _last_bit_of_speed,
            "runners_up": _runners_up,
            "chosen_is_knee": _chosen_is_knee,
            "knee": _knee,
            "chosen_is_baseline": _chosen_is_baseline,
            "compared_with_baseline": _compared_with_baseline,
            "held_machine_is_idle": _held_machine_is_idle,
            "spot_deadline_risk": _spot_deadline_risk,
            "no_time_for_spot": _no_time_for_spot,
            "fallback_to_on_demand": _fallback_to_on_demand,
            "late_even_on_demand": _late_even_on_demand,
        }
    ),
}
