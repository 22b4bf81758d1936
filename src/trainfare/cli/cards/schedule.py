"""Prints simulations, comparisons of policies, bounds and generated queues."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from rich.table import Table
from rich.text import Text

from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import new_table, out, print_note, print_points, print_topics
from trainfare.model.queue import Instance, start_seconds
from trainfare.scheduler.simulation.report import BoundReport, PolicyComparison, SimulationReport
from trainfare.units import format_count, format_duration, format_percent, format_usd, plural
from trainfare.views.schedule import excluded_sentences, skipped_sentence

LISTED = 5
"""Late jobs, and excluded jobs, that are listed."""
WIDE = 112
"""Columns of a terminal that has room for everything."""
MEDIUM = 76
WIDE_COLUMNS = ("policy", "total", "rent", "lateness", "late jobs", "above bound", "migrations", "decision", "99%")
MEDIUM_COLUMNS = ("policy", "total", "lateness", "late jobs", "above bound", "decision, 99%")
NARROW_COLUMNS = ("policy", "total", "late jobs", "above bound")


def print_simulation(report: SimulationReport, notes: Sequence[str] = ()) -> None:
    outcome, nodes = report.outcome, report.schedule.fleet.nodes
    out().print(
        Text.assemble(
            (format_usd(outcome.total_usd), "bold green"),
            f"  for {plural(outcome.jobs, 'job')} on {plural(nodes, 'node')} with ",
            (outcome.policy, "bold"),
            f":  rent {format_usd(outcome.rental_usd)}, {_lateness(report)}{_above_bound(report)}",
        ),
        soft_wrap=not out().is_terminal,
    )
    out().print()
    topics, sentences = zip(*_details(report), strict=True)
    print_topics(topics, sentences)
    if outcome.late_jobs:
        out().print()
        out().print(_late_jobs(report))
    print_excluded(excluded_sentences(report.excluded, spell_arguments))
    _print_notes(notes)


def print_comparison(comparison: PolicyComparison, notes: Sequence[str] = ()) -> None:
    out().print(_policies(comparison))
    first = comparison.reports[0]
    out().print()
    print_points(
        [
            *(skipped_sentence(each, spell_arguments) for each in comparison.skipped),
            f"above bound: relative to {format_usd(first.bound.usd)}, a lower bound on the cost of every schedule",
            "decision: the time of one decision, in the median and for 99% of them",
        ]
    )
    print_excluded(excluded_sentences(first.excluded, spell_arguments))
    _print_notes(notes)


def print_bound(report: BoundReport) -> None:
    jobs, nodes = plural(report.jobs, "job"), plural(report.nodes, "node")
    out().print(
        Text.assemble(
            (format_usd(report.bound.usd), "bold green"), f"  is a lower bound on the cost of {jobs} on {nodes}"
        )
    )
    out().print()
    print_points(
        [
            f"with all nodes for each job alone, the jobs would together cost at least "
            f"{format_usd(report.bound.alone_usd)}",
            "the bound holds for every policy: it assumes that each job pays only for its GPUs, that migrations are "
            "free and that the future is known, so the best schedule may cost more",
        ]
    )
    print_excluded(excluded_sentences(report.excluded, spell_arguments))


def print_generated(made: Instance, folder: Path, nodes: int) -> None:
    last = made.jobs[-1].submitted_seconds
    apart = f", one every {format_duration(last / (len(made.jobs) - 1))}" if len(made.jobs) > 1 else ""
    out().print(
        f"{plural(len(made.jobs), 'job')} on {plural(len(made.types), 'machine type')}{apart}",
        markup=False,
        soft_wrap=True,
    )
    print_next(folder, nodes)


def print_next(folder: Path, nodes: int) -> None:
    """Print which files were written, and the command to type next."""
    print_note(f"written: {folder}/jobs.csv, {folder}/times.csv")
    print_note(f"next: trainfare schedule compare --instance {quote(str(folder))} --nodes {nodes}")


def print_excluded(sentences: Sequence[str]) -> None:
    """Print the first few jobs that are left out, and how many more there are."""
    if not sentences:
        return
    out().print()
    print_points(sentences[:LISTED])
    if len(sentences) > LISTED:
        print_points([f"{plural(len(sentences) - LISTED, 'more job is', 'more jobs are')} left out; --json lists all"])


def finished_line(report: SimulationReport) -> str:
    """One line about a policy that is finished while others still run."""
    outcome = report.outcome
    deciding = sum(report.schedule.decision_seconds)
    return (
        f"{outcome.policy:<15}{format_usd(outcome.total_usd):>14}   {outcome.late_jobs:>5} late   "
        f"decided in {format_duration(deciding)}"
    )


def _print_notes(notes: Sequence[str]) -> None:
    if notes:
        out().print()
        out().print(" · ".join(notes), style="dim", markup=False)


def _lateness(report: SimulationReport) -> str:
    outcome = report.outcome
    if not outcome.late_jobs:
        return "no job late"
    late = f"{format_count(outcome.late_jobs)} of {plural(outcome.jobs, 'job')} late"
    return f"lateness {format_usd(outcome.tardiness_usd)}, {late}"


def _above_bound(report: SimulationReport) -> str:
    return "" if report.gap is None else f"; {_gap(report.gap)} above the lower bound"


def _gap(gap: float) -> str:
    """The gap in percent; rounding can make it negative, which means none."""
    return format_percent(max(0.0, gap))


def _details(report: SimulationReport) -> Iterator[tuple[str, str]]:
    outcome = report.outcome
    yield "bound", f"no schedule of this queue costs less than {format_usd(report.bound.usd)}"
    yield (
        "time",
        f"the last job ends {format_duration(outcome.makespan_seconds)} after the first submission; on average a job "
        f"ends {format_duration(outcome.mean_completion_seconds)} after its own submission, 99% of them within "
        f"{format_duration(outcome.p99_completion_seconds)}",
    )
    yield (
        "nodes",
        f"{format_count(outcome.node_hours)} node-hours; GPUs are used {format_percent(outcome.gpu_use)} of the "
        "rented time",
    )
    yield "jobs", _interruptions(report)
    if outcome.reclaims:
        yield "spot", f"{plural(outcome.reclaims, 'node')} reclaimed"
    optimal = "" if outcome.worst_gap is None else f"; each packing within {_gap(outcome.worst_gap)} of the optimum"
    yield (
        "decisions",
        f"{plural(outcome.decisions, 'decision')}, {format_duration(outcome.decision_p50_seconds)} in the median, 99% "
        f"within {format_duration(outcome.decision_p99_seconds)}{optimal}",
    )


def _interruptions(report: SimulationReport) -> str:
    outcome, delays = report.outcome, report.schedule.delays
    per_job = outcome.migrations / max(outcome.jobs, 1)
    counts = (
        f"{plural(outcome.migrations, 'migration')} ({per_job:.1f} per job), "
        f"{plural(outcome.preemptions, 'preemption')}"
    )
    if report.mode == "paper":
        return f"{counts}; in the mode paper these take no time"
    return (
        f"{counts}; a node boots in {format_duration(delays.boot_seconds)}, a migration takes "
        f"{format_duration(delays.checkpoint_seconds)} to save and {format_duration(delays.restart_seconds)} to restore"
    )


def _late_jobs(report: SimulationReport) -> Table:
    """The late jobs whose lateness costs most; times are relative to the start of the queue."""

    jobs = {job.id: job for job in report.schedule.jobs}
    start = start_seconds(report.schedule.jobs)
    late = [
        (jobs[name], end - jobs[name].deadline_seconds, end)
        for name, end in report.schedule.ended_seconds
        if end > jobs[name].deadline_seconds
    ]
    late.sort(key=lambda each: -each[1] * each[0].late_usd_per_second)
    shown = min(LISTED, report.outcome.late_jobs)
    table = new_table()
    table.add_column(f"late, the {shown} worst" if report.outcome.late_jobs > shown else "late", overflow="fold")
    for name in ("by", "cost", "submitted at", "deadline at", "ended at"):
        table.add_column(name, justify="right", no_wrap=True)
    for job, seconds, end in late[:shown]:
        table.add_row(
            Text(f"  {job.id}"),
            format_duration(seconds),
            format_usd(seconds * job.late_usd_per_second),
            *(_since_start(moment - start) for moment in (job.submitted_seconds, job.deadline_seconds, end)),
        )
    return table


def _since_start(seconds: float) -> str:
    """The time since the start of the queue; a deadline before it is negative."""
    return f"-{format_duration(-seconds)}" if seconds < 0 else format_duration(seconds)


def _policies(comparison: PolicyComparison) -> Table:
    width = out().width
    names = WIDE_COLUMNS if width >= WIDE else MEDIUM_COLUMNS if width >= MEDIUM else NARROW_COLUMNS
    table = new_table()
    for name in names:
        table.add_column(name, justify="left" if name == "policy" else "right", no_wrap=True)
    for place, each in enumerate(comparison.reports):
        cells = _cells(each)
        table.add_row(*(cells[name] for name in names), style="bold green" if place == 0 else None)
    return table


def _cells(report: SimulationReport) -> dict[str, str]:
    outcome = report.outcome
    slowest = format_duration(outcome.decision_p99_seconds)
    return {
        "policy": outcome.policy,
        "total": format_usd(outcome.total_usd),
        "rent": format_usd(outcome.rental_usd),
        "lateness": format_usd(outcome.tardiness_usd),
        "late jobs": format_count(outcome.late_jobs),
        "above bound": "–" if report.gap is None else _gap(report.gap),
        "migrations": format_count(outcome.migrations),
        "decision": format_duration(outcome.decision_p50_seconds),
        "99%": slowest,
        "decision, 99%": slowest,
    }
