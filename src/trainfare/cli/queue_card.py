"""The queue as a person reads it: what to do now first, then what becomes of each job, then why."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import new_table, out, print_note, print_topics
from trainfare.model.submission import Submission, SubmissionResult
from trainfare.scheduler.queue_plan import PlannedJob, QueuePlan
from trainfare.units import format_duration, format_usd
from trainfare.views.queue import deadline_margin, remark_sentence
from trainfare.views.reasons import sentence

WIDE = 112
"""Columns of a terminal that has room for everything."""
MEDIUM = 88
"""Columns below which only what matters most is shown."""
WIDE_COLUMNS = ("job", "program", "user", "now", "machine", "GPUs", "ends", "deadline")
MEDIUM_COLUMNS = ("job", "program", "now", "machine", "GPUs", "ends", "deadline")
NARROW_COLUMNS = ("job", "now", "machine", "deadline")
LONG_NAME = 22
LEFT_OUT = ("profile", "user", "an hour late")
NEAR_DAYS = 6
"""A moment so near is told by the day of the week."""
MOST_NAMES = 8
"""Jobs that are named in one sentence."""


def print_submitted(found: SubmissionResult) -> None:
    submission = found.submission
    by = "no deadline" if submission.deadline_at is None else f"by {_moment(submission.deadline_at)}"
    out().print(Text.assemble((submission.id, "bold"), f"  {submission.program}, {_epochs(submission)}, {by}"))
    for remark in found.remarks:
        print_note(f"note: {sentence(remark, spell_arguments)}")
    print_note("next: trainfare schedule plan")


def print_queue(submissions: Sequence[Submission]) -> None:
    now = datetime.now(UTC)
    columns = {
        "job": [Text(each.id, style="bold") for each in submissions],
        "program": [Text(each.program) for each in submissions],
        "profile": [Text(", ".join(each.profile_ids)) for each in submissions],
        "user": [Text(each.user or "–") for each in submissions],
        "epochs": [Text(str(each.epochs or "as told")) for each in submissions],
        "submitted": [Text(format_ago(each.submitted_at, now)) for each in submissions],
        "deadline": [Text("–" if each.deadline_at is None else _moment(each.deadline_at)) for each in submissions],
        "an hour late": [
            Text("–" if each.deadline_at is None else format_usd(each.late_usd_per_hour)) for each in submissions
        ],
    }
    shown = columns if out().width >= MEDIUM else {name: columns[name] for name in columns if name not in LEFT_OUT}
    table = _table(tuple(shown))
    for row in zip(*shown.values(), strict=True):
        table.add_row(*row)
    out().print(table)


def print_queue_plan(plan: QueuePlan) -> None:
    if plan.outcome is not None:
        _print_sum(plan)
        out().print()
        out().print(_jobs(plan.jobs))
        out().print()
    topics, sentences = zip(*_points(plan), strict=True)
    print_topics(topics, sentences)


def _print_sum(plan: QueuePlan) -> None:
    found = plan.outcome
    if found is None:
        return
    prices = {name: offer.usd_per_hour for name, offer in plan.table.offers.items()}
    rented = sum(prices[node.type] for node in plan.decision.nodes)
    runs = sum(planned.node is not None for planned in plan.jobs)
    out().print(
        Text.assemble(
            ("Run now  ", ""),
            (f"{runs} of {_counted(len(plan.jobs), 'job')}", "bold green"),
            f" on {_counted(len(plan.decision.nodes), 'node')} at {format_usd(rented)} an hour; ",
            (format_usd(found.total_usd), "bold green"),
            f" for all of them: rent {format_usd(found.rental_usd)}, {_lateness(plan)}{_above(plan)}",
        ),
        soft_wrap=not out().is_terminal,
    )


def _lateness(plan: QueuePlan) -> str:
    found = plan.outcome
    if found is None or not found.late_jobs:
        return "no job late"
    return f"lateness {format_usd(found.tardiness_usd)}, {_counted(found.late_jobs, 'job')} late"


def _above(plan: QueuePlan) -> str:
    if plan.gap is None:
        return ""
    percent = max(0.0, 100 * plan.gap)
    return f"; at most {f'{percent:.1f}' if percent < 9.95 else f'{percent:.0f}'} % more than the least possible"


def _jobs(jobs: Sequence[PlannedJob]) -> Table:
    width = out().width
    names = WIDE_COLUMNS if width >= WIDE else MEDIUM_COLUMNS if width >= MEDIUM else NARROW_COLUMNS
    table = _table(names)
    # A name that loses its last letter to the next line is hard to read; one that is as long as a line must.
    table.columns[names.index("machine")].no_wrap = max(len(planned.slot.type) for planned in jobs) <= LONG_NAME
    for planned in jobs:
        submission = planned.submission
        cells = {
            "job": Text(submission.id, style="bold"),
            "program": Text(submission.program),
            "user": Text(submission.user or "–"),
            "now": Text(f"node {planned.node + 1}", style="green")
            if planned.node is not None
            else Text(f"waits, {_moment(planned.begins_at)}", style="dim"),
            "machine": Text(planned.slot.type),
            "GPUs": Text(str(planned.slot.gpus)),
            "ends": Text(_moment(planned.ends_at)),
            "deadline": Text(_deadline(planned), style="red" if planned.late_seconds else ""),
        }
        table.add_row(*(cells[name] for name in names))
    return table


def _deadline(planned: PlannedJob) -> str:
    left = deadline_margin(planned)
    return (
        "–"
        if left is None or planned.on_time_probability is None
        else f"{left} ({_likely(planned.on_time_probability)})"
    )


def _likely(chance: float) -> str:
    """What is not sure is never called so."""
    if 0.005 <= chance < 0.995:
        return f"{100 * chance:.0f} %"
    return "> 99 %" if chance > 0.5 else "< 1 %"


def _points(plan: QueuePlan) -> Iterator[tuple[str, str]]:
    whys: dict[str, list[str]] = {}
    for planned in plan.jobs:
        if planned.waits_because is not None:
            whys.setdefault(sentence(planned.waits_because, spell_arguments), []).append(planned.submission.id)
    for why, names in whys.items():
        yield "waiting", f"{_named(names)} {'waits' if len(names) == 1 else 'wait'}: {why}"
    for left in plan.unplanned:
        yield "left out", f"{left.submission.id} ({left.submission.program}): {sentence(left.reason, spell_arguments)}"
    if plan.outcome is not None:
        yield "machines", _machines(plan)
        if plan.bound_usd is not None:
            yield "bound", f"no schedule of these jobs on these machines costs less than {format_usd(plan.bound_usd)}"
        if any(planned.on_time_probability is not None for planned in plan.jobs):
            yield "deadlines", "in brackets how likely each is kept, by how sure its prediction is"
        yield "assumed", _assumed(plan)
    for remark in plan.table.remarks:
        yield "assumed", remark_sentence(remark, spell_arguments)


def _machines(plan: QueuePlan) -> str:
    prices = [f"{name} {format_usd(offer.usd_per_hour)}/h" for name, offer in plan.table.offers.items()]
    return f"at most {_counted(plan.nodes, 'node')}, each one of {', '.join(prices)}"


def _assumed(plan: QueuePlan) -> str:
    delays = plan.table.delays
    spot = any(offer.market == "spot" for offer in plan.table.offers.values())
    luck = "; spot nodes are taken back as in one draw of luck" if spot else ""
    return (
        f"every prediction holds and nothing more is submitted; a node boots {format_duration(delays.boot_seconds)}, a "
        f"job that moves is back after {format_duration(delays.checkpoint_seconds + delays.restart_seconds)}{luck}"
    )


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def _epochs(submission: Submission) -> str:
    return "as long as its program tells" if submission.epochs is None else _counted(submission.epochs, "epoch")


def _moment(moment: datetime) -> str:
    """`Wed 09:00`, or farther off `2026-12-24 09:00`, by this machine's clock."""
    local = moment.astimezone()
    days = (moment - datetime.now(UTC)).total_seconds() / 86400
    return f"{local:%a %H:%M}" if 0 <= days < NEAR_DAYS else f"{local:%Y-%m-%d %H:%M}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}".replace(",", " ")


def _table(names: Sequence[str]) -> Table:
    table = new_table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
