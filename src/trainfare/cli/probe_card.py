"""What to measure next as a person reads it, and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainfare.model.probing import Probe
from trainfare.recommender.words import machine_words
from trainfare.units import format_duration, format_usd

if TYPE_CHECKING:
    from rich.table import Table

    from trainfare.app.recommending.probe import Probing, ProbingPlan, Step


def print_plan(found: "ProbingPlan") -> None:
    from rich.text import Text

    from trainfare.cli.console import out, print_points

    plan = found.plan
    where = machine_words(plan.start.candidate.offer)
    if plan.probes:
        told = f":  about {format_usd(plan.expected_usd)} in all, {format_usd(_spent(plan.probes))} of it for probes"
    else:
        told = ":  nothing else is worth a probe"
    out().print(Text.assemble("Begin on  ", (where, "bold"), told))
    out().print()
    print_points([*plan.sentences, *_unprobed(found), *_unreached(found.unreached)])
    if plan.probes:
        out().print()
        out().print(_table(found))


def print_probing(found: "Probing") -> None:
    from rich.text import Text

    from trainfare.cli.bill_card import answer
    from trainfare.cli.console import out, print_points

    plan = found.recommendation.plan
    out().print(Text.assemble("Train on  ", *answer(plan.chosen)), soft_wrap=False)
    out().print()
    count = sum(step.profile is not None for step in found.steps)
    print_points(
        [
            f"{count} machine{'s' if count != 1 else ''} measured; stopped: {found.stopped}",
            *_unreached(found.unreached),
            f"plan {plan.id} kept; all of it: trainfare plans show {plan.id}",
        ]
    )


def beginning_line(probe: Probe) -> str:
    return f"probing {machine_words(probe.candidate.offer)}: {probe.why}"


def step_line(step: "Step") -> str:
    from trainfare.profiler.stopping import steady_interval

    name = machine_words(step.probe.candidate.offer)
    if step.profile is None:
        return f"{name}: {step.failure}"
    middle = steady_interval(step.profile)
    each = "" if middle is None else f", {format_duration(middle.value)} an iteration"
    best = f"; best now: {machine_words(step.chosen.candidate.offer)}" if step.chosen else ""
    failed = f" ({step.failure})" if step.failure else ""
    return f"{name}: profile {step.profile.id} kept{each}{best}{failed}"


def plan_record(found: "ProbingPlan") -> dict[str, Any]:
    plan = found.plan
    return {
        "profiles": [profile.id for profile in found.profiles],
        "goal": plan.goal.kind,
        "start": probe_record(plan.start),
        "probes": [probe_record(probe) for probe in plan.probes],
        "stop_when": plan.stop_when,
        "expected_usd": plan.expected_usd,
        "expected_seconds": plan.expected_seconds,
        "unprobed_usd": plan.unprobed_usd,
        "unprobed_seconds": plan.unprobed_seconds,
        "unreached": [probe.candidate.offer.vm_type.key for probe in found.unreached],
        "sentences": list(plan.sentences),
    }


def probing_record(found: "Probing") -> dict[str, Any]:
    from trainfare.app.records import estimate_record

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
        "stopped": found.stopped,
        "interrupted": found.interrupted,
        "unreached": [probe_record(probe) for probe in found.unreached],
        "plan": found.recommendation.plan.id,
        "chosen": estimate_record(found.recommendation.plan.chosen),
    }


def probe_record(probe: Probe) -> dict[str, Any]:
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
        "why": probe.why,
    }


def _spent(probes: Sequence[Probe]) -> float:
    return sum(probe.usd for probe in probes)


def _unprobed(found: "ProbingPlan") -> list[str]:
    plan = found.plan
    if not plan.probes:
        return []
    return [
        f"on the average of what may come out: {format_usd(plan.expected_usd)} and "
        f"{format_duration(plan.expected_seconds)} with the probes, {format_usd(plan.unprobed_usd)} and "
        f"{format_duration(plan.unprobed_seconds)} without any"
    ]


def _unreached(probes: Sequence[Probe]) -> list[str]:
    """Said plainly: what we cannot do, and what the user can."""
    if not probes:
        return []
    names = ", ".join(dict.fromkeys(machine_words(probe.candidate.offer) for probe in probes))
    first = probes[0].candidate.offer.vm_type.key
    return [
        f"no door leads to {names} yet: trainfare probe reaches slices of this machine. Rent it, profile the program "
        f"there (trainfare profile --on {first} -- …) and bring the profile home: trainfare profiles import"
    ]


def _table(found: "ProbingPlan") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("machine", overflow="fold", min_width=12)
    for name in ("GPU", "takes", "costs", "saves", "of time"):
        table.add_column(name, justify="left" if name == "GPU" else "right", no_wrap=True)
    table.add_column("by")
    plan = found.plan
    for number, probe in enumerate((plan.start, *plan.probes)):
        gpu = probe.candidate.offer.vm_type.gpu
        table.add_row(
            "begin" if not number else f"{number}.",
            machine_words(probe.candidate.offer),
            gpu.name if gpu else "–",
            format_duration(probe.seconds) if probe.seconds else "–",
            format_usd(probe.usd),
            format_usd(probe.expected_saving_usd) if number and probe.expected_saving_usd > 0 else "–",
            format_duration(probe.expected_saving_seconds) if number and probe.expected_saving_seconds > 0 else "–",
            "you" if probe in found.unreached else "trainfare probe",
        )
    return table
