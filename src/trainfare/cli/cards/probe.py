"""Prints a plan of probes and its result."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from trainfare.cli.cards.bill import answer
from trainfare.cli.console import new_table, out, print_points
from trainfare.model.estimate import Estimate
from trainfare.model.probing import MachineProbe, MachineProbing, Probe, ProbeResult, ProbingPlan, ProbingResult
from trainfare.model.stability import steady_interval
from trainfare.recommender.names import machine_name
from trainfare.units import format_duration, format_usd, plural
from trainfare.views.intervals import time_with_interval
from trainfare.views.probing import machine_probing_sentences, plan_sentences, probe_sentence


def print_plan(found: ProbingPlan) -> None:
    plan = found.plan
    where = machine_name(plan.start.candidate.offer)
    if plan.probes:
        summary = (
            f":  about {format_usd(plan.expected_usd)} in total, {format_usd(_spent(plan.probes))} of it for probes"
        )
    else:
        summary = ":  no probe pays off"
    start = "Start  " if found.plan.start.candidate.offer.is_here else "Start on  "
    out().print(Text.assemble(start, (where, "bold"), summary))
    out().print()
    print_points([*plan_sentences(plan), *_unprobed(found), *_unreached(found.unreachable)])
    if plan.probes:
        out().print()
        out().print(_table(found))


def print_probing(found: ProbingResult) -> None:
    plan = found.plan
    out().print(Text.assemble("Train on  ", *answer(plan.chosen)), soft_wrap=False)
    out().print()
    count = sum(step.profile is not None for step in found.steps)
    print_points(
        [
            f"{plural(count, 'machine')} measured; stopped: {probe_sentence(found.stopped)}",
            *_unreached(found.unreachable),
            f"plan {plan.id} stored; show it with trainfare plans show {plan.id}",
        ]
    )


def print_machine_probing(found: MachineProbing) -> None:
    """The recommendation after probes on named machines, and each machine before and after."""
    if found.after is not None:
        out().print(Text.assemble("Train on  ", *answer(found.after.chosen)), soft_wrap=False)
        out().print()
    print_points(machine_probing_sentences(found))
    if found.estimates_after or found.estimates_before:
        out().print()
        out().print(_machines_table(found))


def _machines_table(found: MachineProbing) -> Table:
    """Each machine now and, below it, as it was predicted before."""
    before = {e.candidate.offer.vm_type.key: e for e in found.estimates_before}
    after = {e.candidate.offer.vm_type.key: e for e in found.estimates_after}
    table = new_table()
    table.add_column("machine", overflow="fold", min_width=8)
    table.add_column("profile", no_wrap=True)
    for name in ("iteration", "training (90%)", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for probe in found.probes:
        table.add_row(probe.machine, _profile_cell(probe), *_estimate_cells(after.get(probe.machine)))
        if (earlier := before.get(probe.machine)) is not None:
            table.add_row("  before", earlier.basis, *_estimate_cells(earlier), style="dim")
    return table


def _profile_cell(probe: MachineProbe) -> str:
    name = probe.profile.id if probe.profile else ""
    return f"{name} (failed)".strip() if probe.failure and name else name or "failed"


def _estimate_cells(estimate: Estimate | None) -> tuple[str, str, str]:
    if estimate is None:
        return ("–", "–", "–")
    iteration = format_duration(estimate.iteration_seconds.value)
    return iteration, time_with_interval(estimate.seconds), format_usd(estimate.usd.value)


def beginning_line(probe: Probe) -> str:
    return f"probing {machine_name(probe.candidate.offer)}: {probe_sentence(probe.reason)}"


def step_line(step: ProbeResult) -> str:
    name = machine_name(step.probe.candidate.offer)
    if step.profile is None:
        return f"{name}: {step.failure}"
    middle = steady_interval(step.profile)
    each = "" if middle is None else f", {format_duration(middle.value)} per iteration"
    best = f"; best now: {machine_name(step.chosen.candidate.offer)}" if step.chosen else ""
    failed = f" ({step.failure})" if step.failure else ""
    return f"{name}: profile {step.profile.id} stored{each}{best}{failed}"


def _spent(probes: Sequence[Probe]) -> float:
    return sum(probe.usd for probe in probes)


def _unprobed(found: ProbingPlan) -> list[str]:
    plan = found.plan
    if not plan.probes:
        return []
    return [
        f"on average: {format_usd(plan.expected_usd)} and "
        f"{format_duration(plan.expected_seconds)} with the probes, {format_usd(plan.unprobed_usd)} and "
        f"{format_duration(plan.unprobed_seconds)} without them"
    ]


def _unreached(probes: Sequence[Probe]) -> list[str]:
    """Machines that `trainfare probe` cannot reach, and what the user can do."""
    if not probes:
        return []
    names = ", ".join(dict.fromkeys(machine_name(probe.candidate.offer) for probe in probes))
    first = probes[0].candidate.offer.vm_type.key
    one = "it" if len(probes) == 1 else "one of them"
    return [
        f"{names} cannot be measured from here: trainfare probe runs on your servers and on slices of this machine. "
        f"Rent {one}, profile the program there (trainfare profile --on {first} -- …) and import the profile here "
        "(trainfare profiles import)"
    ]


def _table(found: ProbingPlan) -> Table:
    table = new_table()
    table.add_column("")
    table.add_column("machine", overflow="fold", min_width=12)
    for name in ("GPU", "takes", "costs", "saves", "saves time"):
        table.add_column(name, justify="left" if name == "GPU" else "right", no_wrap=True)
    table.add_column("by")
    plan = found.plan
    for number, probe in enumerate((plan.start, *plan.probes)):
        gpu = probe.candidate.offer.vm_type.gpu
        table.add_row(
            "start" if not number else f"{number}.",
            machine_name(probe.candidate.offer),
            gpu.name if gpu else "–",
            format_duration(probe.seconds) if probe.seconds else "–",
            format_usd(probe.usd),
            format_usd(probe.expected_saving_usd) if number and probe.expected_saving_usd > 0 else "–",
            format_duration(probe.expected_saving_seconds) if number and probe.expected_saving_seconds > 0 else "–",
            "you" if probe in found.unreachable else "trainfare probe",
        )
    return table
