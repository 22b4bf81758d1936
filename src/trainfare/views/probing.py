"""Probes as sentences and as JSON records."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainfare.model.estimate import Estimate
from trainfare.model.machine import HERE_NAME
from trainfare.model.probing import MachineProbe, MachineProbing, Probe, ProbePlan, ProbingPlan, ProbingResult
from trainfare.model.reason import Reason
from trainfare.model.stability import steady_interval
from trainfare.recommender.names import machine_name
from trainfare.units import format_duration, format_percent, format_ratio, format_usd, plural
from trainfare.views.estimates import estimate_record
from trainfare.views.intervals import time_with_interval, usd_with_interval
from trainfare.views.sentences import Sentence, from_values
from trainfare.views.values import Values, integer, number, text, texts

EVEN_CHANCE = 0.4
"""A probability from which on a rival is said to have an even chance."""
EQUAL_WITHIN = 1.005
"""A ratio up to which two machines are called equally good."""


def plan_sentences(plan: ProbePlan) -> Iterator[str]:
    """The plan in order: where to start, each probe, what happens if one is better, and when to stop."""
    yield probe_sentence(plan.start.reason)
    for probe in plan.probes:
        yield _probe_line(probe, plan)
    if plan.probes:
        yield (
            "if a probe turns out better, continue there from the last checkpoint"
            if plan.keeps_work
            else "if a probe turns out better, start over there; without checkpoints the work done by then is lost, "
            "which is counted"
        )
    yield probe_sentence(plan.stop)


def probe_sentence(reason: Reason) -> str:
    """The sentence of a reason about probes."""
    return _FROM_VALUES[reason.code](reason.values)


def _probe_line(probe: Probe, plan: ProbePlan) -> str:
    saved = []
    if plan.goal.kind != "fastest":
        saved.append(format_usd(max(0.0, probe.expected_saving_usd)))
    if plan.goal.kind != "cheapest":
        saved.append(format_duration(max(0.0, probe.expected_saving_seconds)))
    return (
        f"meanwhile, probe {machine_name(probe.candidate.offer)}: {format_duration(probe.seconds)}, "
        f"{format_usd(probe.usd)}, expected to save {' and '.join(saved)}; {probe_sentence(probe.reason)}"
    )


def _probe_start(values: Values) -> str:
    machine = text(values, "machine")
    cost = f"{format_usd(number(values, 'usd'))}, {format_duration(number(values, 'seconds'))}"
    where = machine if machine == HERE_NAME else f"on {machine}"
    if values["measured"]:
        return f"start the training {where}, which is measured ({cost})"
    return (
        f"start the training {where}, which is expected to be best ({cost}); its first iterations, "
        f"{format_duration(number(values, 'probe_seconds'))} from now, are a free measurement"
    )


def _probe_unmeasured_best(_values: Values) -> str:
    return "it is expected to be best, and it is not measured yet"


def _probe_rival(values: Values) -> str:
    best, goal = text(values, "best"), text(values, "goal")
    cost, time = number(values, "cost_ratio"), number(values, "time_ratio")
    if goal == "weighted":
        return f"expected to take {format_ratio(time)} the time and {format_ratio(cost)} the cost of {best}"
    ratio, worse, better = (time, "slower", "faster") if goal == "fastest" else (cost, "more expensive", "cheaper")
    if values["better_but_uncertain_limit"]:
        return f"expected to be {_percent(1 - ratio)} {better} than {best}, but not certain to be within the limit"
    chance = f"{_chance(number(values, 'probability'))} that it is {better}"
    if ratio < EQUAL_WITHIN:
        return f"expected to be as good as {best}, with {chance}"
    return f"expected to be {_percent(ratio - 1)} {worse} than {best}, with {chance}"


def _percent(share: float) -> str:
    return format_percent(round(share, 2))


def _chance(probability: float) -> str:
    if probability >= EVEN_CHANCE:
        return "an even chance"
    return f"one chance in {max(3, round(1 / max(probability, 1e-3)))}"


def _probes_would_decide(values: Values) -> str:
    """`8 min on aws g5.xlarge and aws g6.xlarge ($0.14) would decide it`."""
    machines = " and ".join(texts(values, "machines"))
    seconds, usd = format_duration(number(values, "seconds")), format_usd(number(values, "usd"))
    return f"a measurement of {seconds} on {machines} ({usd}) would decide it: `trainfare probe` plans it"


def _stop_now(_values: Values) -> str:
    return "stop here: no probe is expected to save more than it costs"


def _stop_when_no_probe_pays(_values: Values) -> str:
    return "stop as soon as no probe is expected to save more than it costs"


def _stop_after_start(values: Values) -> str:
    machine = text(values, "machine")
    return f"stop there: whatever the measurement on {machine} shows, no probe is expected to save more than it costs"


def _stop_at_iteration_time(values: Values) -> str:
    longest = format_duration(number(values, "iteration_seconds"))
    otherwise = "" if values["has_probes"] else "; if it is slower, plan the probes again"
    return f"stop without a probe if an iteration on {text(values, 'machine')} takes at most {longest}{otherwise}"


def _probing_interrupted(_values: Values) -> str:
    return "interrupted"


def _probe_limit_reached(values: Values) -> str:
    return f"the limit of {plural(integer(values, 'most'), 'probe')} is reached"


def _no_probe_pays(_values: Values) -> str:
    return "no further probe is expected to save more than it costs"


def _only_unreachable_probes_pay(_values: Values) -> str:
    return "the remaining probes that would pay are on machines that cannot be reached from here"


_FROM_VALUES = {
    "probe_start": _probe_start,
    "probe_unmeasured_best": _probe_unmeasured_best,
    "probe_rival": _probe_rival,
    "probes_would_decide": _probes_would_decide,
    "stop_now": _stop_now,
    "stop_when_no_probe_pays": _stop_when_no_probe_pays,
    "stop_after_start": _stop_after_start,
    "stop_at_iteration_time": _stop_at_iteration_time,
    "probing_interrupted": _probing_interrupted,
    "probe_limit_reached": _probe_limit_reached,
    "no_probe_pays": _no_probe_pays,
    "only_unreachable_probes_pay": _only_unreachable_probes_pay,
}

SENTENCES: Mapping[str, Sentence] = from_values(_FROM_VALUES)
"""The sentence of each reason about probes, by its code."""


def probing_plan_record(found: ProbingPlan) -> dict[str, Any]:
    """The plan of probes, with its sentences."""
    plan = found.plan
    return {
        "profiles": [profile.id for profile in found.profiles],
        "goal": plan.goal.kind,
        "start": probe_record(plan.start),
        "probes": [probe_record(probe) for probe in plan.probes],
        "stop_when": probe_sentence(plan.stop),
        "expected_usd": plan.expected_usd,
        "expected_seconds": plan.expected_seconds,
        "unprobed_usd": plan.unprobed_usd,
        "unprobed_seconds": plan.unprobed_seconds,
        "unreached": [probe.candidate.offer.vm_type.key for probe in found.unreachable],
        "sentences": list(plan_sentences(plan)),
    }


def probing_result_record(found: ProbingResult) -> dict[str, Any]:
    """The probes that were taken, and the recommendation after them."""
    return {
        "steps": [
            {
                **probe_record(step.probe),
                "profile": step.profile.id if step.profile else None,
                "failure": step.failure,
                "chosen": step.chosen.candidate.offer.vm_type.key if step.chosen else None,
            }
            for step in found.steps
        ],
        "stopped": probe_sentence(found.stopped),
        "interrupted": found.interrupted,
        "unreached": [probe_record(probe) for probe in found.unreachable],
        "plan": found.plan.id,
        "chosen": estimate_record(found.plan.chosen),
    }


def probe_record(probe: Probe) -> dict[str, Any]:
    """One probe: where, how long, what it costs, what it is expected to save, and why."""
    candidate = probe.candidate
    return {
        "machine": candidate.offer.vm_type.key,
        "market": candidate.offer.market,
        "region": candidate.offer.region,
        "nodes": candidate.nodes,
        "batch_size": candidate.batch_size,
        "seconds": probe.seconds,
        "usd": probe.usd,
        "expected_saving_usd": probe.expected_saving_usd,
        "expected_saving_seconds": probe.expected_saving_seconds,
        "why": probe_sentence(probe.reason),
    }


def machine_probing_record(found: MachineProbing) -> dict[str, Any]:
    """The probes on named machines, and the recommendation before and after them."""
    before = {estimate.candidate.offer.vm_type.key: estimate for estimate in found.estimates_before}
    after = {estimate.candidate.offer.vm_type.key: estimate for estimate in found.estimates_after}
    return {
        "probes": [
            {
                **machine_probe_record(probe),
                "before": _optional_estimate(before.get(probe.machine)),
                "after": _optional_estimate(after.get(probe.machine)),
            }
            for probe in found.probes
        ],
        "usd": found.usd,
        "budget_usd": found.budget_usd,
        "interrupted": found.interrupted,
        "plan_before": found.before.id if found.before else None,
        "chosen_before": _optional_estimate(found.before.chosen if found.before else None),
        "plan": found.after.id if found.after else None,
        "chosen": _optional_estimate(found.after.chosen if found.after else None),
        "no_recommendation": found.no_recommendation,
    }


def machine_probe_record(probe: MachineProbe) -> dict[str, Any]:
    """One probe on a named machine."""
    middle = steady_interval(probe.profile) if probe.profile else None
    return {
        "machine": probe.machine,
        "batch_size": probe.batch_size,
        "profile": probe.profile.id if probe.profile else None,
        "iterations": len(probe.profile.iteration_seconds) if probe.profile else 0,
        "iteration_seconds": middle.value if middle else None,
        "iteration_seconds_low": middle.low if middle else None,
        "iteration_seconds_high": middle.high if middle else None,
        "failure": probe.failure,
        "interrupted": probe.interrupted,
        "seconds": probe.seconds,
        "usd": probe.usd,
        "left_behind": probe.left_behind,
    }


def machine_probing_sentences(found: MachineProbing) -> Iterator[str]:
    """The change by the probes, their cost, and the id of the plan."""
    if found.after is not None:
        chosen = machine_name(found.after.chosen.candidate.offer)
        if found.before is None:
            yield "the program was not profiled before"
        elif machine_name(found.before.chosen.candidate.offer) == chosen:
            yield f"as before the probes: {_time_and_cost(found.before.chosen)}"
        else:
            before = machine_name(found.before.chosen.candidate.offer)
            yield f"before the probes: {before}, {_time_and_cost(found.before.chosen)}"
    count = len({probe.machine for probe in found.probes if probe.profile})
    limit = "" if found.budget_usd is None else f" of {format_usd(found.budget_usd)}"
    yield f"{plural(count, 'machine')} measured, for {format_usd(found.usd)}{limit}"
    if found.after is not None:
        yield f"plan {found.after.id} stored; show it with trainfare plans show {found.after.id}"
    if found.no_recommendation:
        yield f"no recommendation: {found.no_recommendation}"


def _time_and_cost(estimate: Estimate) -> str:
    return f"{time_with_interval(estimate.seconds)}, {usd_with_interval(estimate.usd)}"


def _optional_estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate_record(estimate)
