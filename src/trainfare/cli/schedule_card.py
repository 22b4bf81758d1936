"""Schedules as a person reads them: what it comes to first, then why, then what is wrong with it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from rich.table import Table
from rich.text import Text

from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import out, print_note, print_points, print_topics
from trainfare.model.queue import Instance, start_seconds
from trainfare.scheduler.simulation.report import BoundReport, PolicyComparison, SimulationReport
from trainfare.units import format_duration, format_usd
from trainfare.views.schedule import excluded_sentences, skipped_sentence

WORST = 5
"""Late jobs that are listed."""
WIDE = 112
"""Columns of a terminal that has room for everything."""
MEDIUM = 76
WIDE_COLUMNS = ("policy", "total", "rent", "lateness", "late jobs", "above", "moves", "decided", "99 %")
MEDIUM_COLUMNS = ("policy", "total", "lateness", "late jobs", "above", "decided, 99 %")
NARROW_COLUMNS = ("policy", "total", "late jobs", "above")


def print_simulated(found: SimulationReport, notes: Sequence[str] = ()) -> None:
    outcome, nodes = found.outcome, found.schedule.fleet.nodes
    out().print(
        Text.assemble(
            (format_usd(outcome.total_usd), "bold green"),
            f"  for {_counted(outcome.jobs, 'job')} on {_counted(nodes, 'node')} by ",
            (outcome.policy, "bold"),
            f":  rent {format_usd(outcome.rental_usd)}, {_lateness(found)}{_above(found)}",
        ),
        soft_wrap=not out().is_terminal,
    )
    out().print()
    topics, sentences = zip(*_details(found), strict=True)
    print_topics(topics, sentences)
    if outcome.late_jobs:
        out().print()
        out().print(_latest(found))
    _print_left_out(excluded_sentences(found.excluded, spell_arguments), notes)


def print_compared(found: PolicyComparison, notes: Sequence[str] = ()) -> None:
    out().print(_table(found))
    said = [skipped_sentence(each, spell_arguments) for each in found.skipped]
    first = found.reports[0]
    said.append(
        f"above: against {format_usd(first.bound.usd)}, which no schedule of this queue is below; decided: how long "
        "one decision took, at the median and for 99 % of them"
    )
    out().print()
    print_points(said)
    _print_left_out(excluded_sentences(first.excluded, spell_arguments), notes)


def print_bound(found: BoundReport) -> None:
    out().print(
        Text.assemble(
            (format_usd(found.bound.usd), "bold green"),
            f"  is what no schedule of these {_counted(found.jobs, 'job')} on {_counted(found.nodes, 'node')} is below",
        )
    )
    out().print()
    print_points(
        [
            f"were every job alone in the fleet, all together would cost {format_usd(found.bound.alone_usd)} at least",
            "it holds for every policy, with prices of whole nodes shared at best, free moves and the future known: "
            "a schedule that reaches it need not exist",
        ]
    )
    _print_left_out(excluded_sentences(found.excluded, spell_arguments), ())


def print_generated(made: Instance, folder: Path, nodes: int) -> None:
    last = made.jobs[-1].submitted_seconds
    apart = f", one every {format_duration(last / (len(made.jobs) - 1))}" if len(made.jobs) > 1 else ""
    out().print(
        f"{_counted(len(made.jobs), 'job')} on {_counted(len(made.types), 'machine type')}{apart}", markup=False
    )
    print_note(f"written: {folder}/jobs.csv, {folder}/times.csv")
    print_note(f"next: trainfare schedule compare --instance {quote(str(folder))} --nodes {nodes}")


def finished_line(found: SimulationReport) -> str:
    """While others are still running."""
    outcome = found.outcome
    spent = sum(found.schedule.decision_seconds)
    return (
        f"{outcome.policy:<15}{format_usd(outcome.total_usd):>14}   {outcome.late_jobs:>5} late   "
        f"decided in {format_duration(spent)}"
    )


def _print_left_out(left_out: Sequence[str], notes: Sequence[str]) -> None:
    if left_out:
        out().print()
        print_points(left_out[:WORST])
        if len(left_out) > WORST:
            print_points([f"{len(left_out) - WORST} more jobs are left out: --json tells them all"])
    if notes:
        out().print()
        out().print(" · ".join(notes), style="dim", markup=False)


def _lateness(found: SimulationReport) -> str:
    outcome = found.outcome
    if not outcome.late_jobs:
        return "no job late"
    return f"lateness {format_usd(outcome.tardiness_usd)}, {outcome.late_jobs} of {_counted(outcome.jobs, 'job')} late"


def _above(found: SimulationReport) -> str:
    return "" if found.gap is None else f"; {_share(found.gap)} above the bound"


def _share(gap: float) -> str:
    """0.52 %, 12 %, 947 %"""
    percent = max(0.0, 100 * gap)
    return f"{percent:.2f} %" if percent < 9.995 else f"{percent:,.0f} %".replace(",", " ")


def _details(found: SimulationReport) -> Iterator[tuple[str, str]]:
    outcome = found.outcome
    yield "bound", f"no schedule of this queue costs less than {format_usd(found.bound.usd)}"
    yield (
        "time",
        f"all done {format_duration(outcome.makespan_seconds)} after the first submission; a job is done "
        f"{format_duration(outcome.mean_completion_seconds)} after its own on average, 99 % within "
        f"{format_duration(outcome.p99_completion_seconds)}",
    )
    hours = f"{outcome.node_hours:,.0f}".replace(",", " ")
    yield "nodes", f"{hours} node-hours; GPUs work {100 * outcome.gpu_use:.1f} % of the time they are paid"
    yield "jobs", _moves(found)
    if outcome.reclaims:
        yield "spot", f"{_counted(outcome.reclaims, 'node')} taken back"
    certified = "" if outcome.worst_gap is None else f"; each packed within {_share(outcome.worst_gap)} of the best"
    yield (
        "deciding",
        f"{_counted(outcome.decisions, 'decision')}, {format_duration(outcome.decision_p50_seconds)} at the median, "
        f"99 % within {format_duration(outcome.decision_p99_seconds)}{certified}",
    )


def _moves(found: SimulationReport) -> str:
    outcome, delays = found.outcome, found.schedule.delays
    moved = f"moved {_counted(outcome.migrations, 'time')} ({outcome.migrations / max(outcome.jobs, 1):.1f} a job)"
    stopped = f"stopped to wait {_counted(outcome.preemptions, 'time')}"
    if found.mode == "paper":
        return f"{moved}, {stopped}; in the mode paper that takes no time"
    return (
        f"{moved}, {stopped}; a node boots {_delay(delays.boot_seconds)}, a move takes "
        f"{_delay(delays.checkpoint_seconds)} to save and {_delay(delays.restart_seconds)} to restore"
    )


def _delay(seconds: float) -> str:
    """As somebody set it: 30 s, 2 min."""
    if not seconds:
        return "no time"
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"


def _latest(found: SimulationReport) -> Table:
    """The worst, by what their lateness costs."""

    jobs = {job.id: job for job in found.schedule.jobs}
    start = start_seconds(found.schedule.jobs)
    late = [
        (jobs[name], end - jobs[name].deadline_seconds, end)
        for name, end in found.schedule.ended_seconds
        if end > jobs[name].deadline_seconds
    ]
    late.sort(key=lambda each: -each[1] * each[0].late_usd_per_second)
    shown = min(WORST, found.outcome.late_jobs)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(f"late, the {shown} worst" if found.outcome.late_jobs > shown else "late", overflow="fold")
    for name in ("by", "costs", "submitted", "deadline", "ended"):
        table.add_column(name, justify="right", no_wrap=True)
    for job, seconds, end in late[:shown]:
        table.add_row(
            Text(f"  {job.id}"),
            format_duration(seconds),
            format_usd(seconds * job.late_usd_per_second),
            *(_moment(moment - start) for moment in (job.submitted_seconds, job.deadline_seconds, end)),
        )
    return table


def _moment(seconds: float) -> str:
    """Hours and minutes since the start of the queue; a deadline may lie before it."""
    minutes = round(abs(seconds) / 60)
    return f"{'-' * (seconds < 0 < minutes)}{minutes // 60}:{minutes % 60:02d} h"


def _table(found: PolicyComparison) -> Table:
    width = out().width
    names = WIDE_COLUMNS if width >= WIDE else MEDIUM_COLUMNS if width >= MEDIUM else NARROW_COLUMNS
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for place, each in enumerate(found.reports):
        cells = _cells(each)
        table.add_row(*(cells[name] for name in names), style="bold green" if place == 0 else None)
    return table


def _cells(each: SimulationReport) -> dict[str, str]:
    outcome = each.outcome
    slowest = format_duration(outcome.decision_p99_seconds)
    return {
        "policy": outcome.policy,
        "total": format_usd(outcome.total_usd),
        "rent": format_usd(outcome.rental_usd),
        "lateness": format_usd(outcome.tardiness_usd),
        "late jobs": str(outcome.late_jobs),
        "above": "–" if each.gap is None else _share(each.gap),
        "moves": str(outcome.migrations),
        "decided": format_duration(outcome.decision_p50_seconds),
        "99 %": slowest,
        "decided, 99 %": slowest,
    }


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}".replace(",", " ")
