"""Prints the queue, and its plan: what to run now first, then every job, then the reasons."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import new_table, out, print_note, print_topics
from trainfare.model.reason import Scalar
from trainfare.model.schedule import ScheduleOutcome
from trainfare.model.submission import Submission, SubmissionResult
from trainfare.scheduler.queue_plan import PlannedJob, QueuePlan
from trainfare.units import (
    format_ago,
    format_duration,
    format_epochs,
    format_percent,
    format_tokens,
    format_usd,
    format_usd_per_hour,
    plural,
)
from trainfare.views.queue import deadline_margin, remark_sentence
from trainfare.views.reasons import sentence

WIDE = 112
"""Columns of a terminal that has room for everything."""
MEDIUM = 88
"""Columns below which only the most important ones are shown."""
WIDE_COLUMNS = ("job", "program", "user", "now", "machine", "GPUs", "ends", "deadline")
MEDIUM_COLUMNS = ("job", "program", "now", "machine", "GPUs", "ends", "deadline")
NARROW_COLUMNS = ("job", "now", "machine", "deadline")
LONG_NAME = 22
NARROW_LEAVES_OUT = ("profile", "user", "lateness")
NEAR_DAYS = 6
"""Moments within this many days are shown with the day of the week instead of the date."""
JOBS_NAMED = 8
"""Jobs that are named in one sentence."""


def print_submission(result: SubmissionResult) -> None:
    submission = result.submission
    epochs = _length(submission) or "epochs as the program says"
    deadline = "no deadline" if submission.deadline_at is None else f"deadline {_moment(submission.deadline_at)}"
    out().print(Text.assemble((submission.id, "bold"), f"  {submission.program}, {epochs}, {deadline}"))
    for remark in result.remarks:
        print_note(f"note: {sentence(remark, spell_arguments)}")
    print_note("next: trainfare queue plan")


def _length(submission: Submission) -> str:
    """The stated length: `90 epochs`, `2,000 steps`, `300B tokens`; empty if none is stated."""
    if submission.steps is not None:
        return plural(submission.steps, "step")
    if submission.tokens is not None:
        return format_tokens(submission.tokens)
    return "" if submission.epochs is None else format_epochs(submission.epochs)


def print_queue(submissions: Sequence[Submission]) -> None:
    now = datetime.now(UTC)
    columns = {
        "job": [Text(each.id, style="bold") for each in submissions],
        "program": [Text(each.program) for each in submissions],
        "profile": [Text(", ".join(each.profile_ids)) for each in submissions],
        "user": [Text(each.user or "–") for each in submissions],
        "epochs": [Text(_length(each).removesuffix(" epochs") or "by program") for each in submissions],
        "submitted": [Text(format_ago(each.submitted_at, now)) for each in submissions],
        "deadline": [Text("–" if each.deadline_at is None else _moment(each.deadline_at)) for each in submissions],
        "lateness": [
            Text("–" if each.deadline_at is None else format_usd_per_hour(each.late_usd_per_hour))
            for each in submissions
        ],
    }
    if out().width < MEDIUM:
        columns = {name: cells for name, cells in columns.items() if name not in NARROW_LEAVES_OUT}
    table = _table(tuple(columns))
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    out().print(table)


def print_queue_plan(plan: QueuePlan) -> None:
    if plan.outcome is not None:
        _print_answer(plan, plan.outcome)
        out().print()
        out().print(_jobs(plan.jobs))
        out().print()
    topics, sentences = zip(*_reasons(plan), strict=True)
    print_topics(topics, sentences)


def _print_answer(plan: QueuePlan, outcome: ScheduleOutcome) -> None:
    prices = {name: offer.usd_per_hour for name, offer in plan.table.offers.items()}
    rate = sum(prices[node.type] for node in plan.decision.nodes)
    running = sum(planned.node is not None for planned in plan.jobs)
    out().print(
        Text.assemble(
            "Run now  ",
            (f"{running} of {plural(len(plan.jobs), 'job')}", "bold green"),
            f" on {plural(len(plan.decision.nodes), 'node')} at {format_usd_per_hour(rate)}; all jobs cost ",
            (format_usd(outcome.total_usd), "bold green"),
            f":  rent {format_usd(outcome.rental_usd)}, {_lateness(outcome)}{_above_optimum(plan)}",
        ),
        soft_wrap=not out().is_terminal,
    )


def _lateness(outcome: ScheduleOutcome) -> str:
    if not outcome.late_jobs:
        return "no job late"
    return f"lateness {format_usd(outcome.tardiness_usd)}, {plural(outcome.late_jobs, 'job')} late"


def _above_optimum(plan: QueuePlan) -> str:
    return "" if plan.gap is None else f"; at most {format_percent(max(0.0, plan.gap))} above the optimum"


def _jobs(jobs: Sequence[PlannedJob]) -> Table:
    width = out().width
    names = WIDE_COLUMNS if width >= WIDE else MEDIUM_COLUMNS if width >= MEDIUM else NARROW_COLUMNS
    table = _table(names)
    # A name whose last letter is on the next line is hard to read; a name as long as a line must be folded.
    table.columns[names.index("machine")].no_wrap = max(len(planned.slot.type) for planned in jobs) <= LONG_NAME
    for planned in jobs:
        submission = planned.submission
        cells = {
            "job": Text(submission.id, style="bold"),
            "program": Text(submission.program),
            "user": Text(submission.user or "–"),
            "now": Text(f"node {planned.node + 1}", style="green")
            if planned.node is not None
            else Text(f"waits until {_moment(planned.begins_at)}", style="dim"),
            "machine": Text(planned.slot.type),
            "GPUs": Text(str(planned.slot.gpus)),
            "ends": Text(_moment(planned.ends_at)),
            "deadline": Text(_deadline(planned), style="red" if planned.late_seconds else ""),
        }
        table.add_row(*(cells[name] for name in names))
    return table


def _deadline(planned: PlannedJob) -> str:
    margin, probability = deadline_margin(planned), planned.on_time_probability
    return "–" if margin is None or probability is None else f"{margin} ({_probability(probability)})"


def _probability(probability: float) -> str:
    """A probability in percent; an uncertain event is shown neither as 0% nor as 100%."""
    if 0.005 <= probability < 0.995:
        return format_percent(round(probability, 2))
    return ">99%" if probability > 0.5 else "<1%"


def _reasons(plan: QueuePlan) -> Iterator[tuple[str, str]]:
    waiting: dict[str, list[str]] = {}
    for planned in plan.jobs:
        if planned.waits_because is not None:
            waiting.setdefault(sentence(planned.waits_because, spell_arguments), []).append(planned.submission.id)
    for why, names in waiting.items():
        yield "waiting", f"{_list_jobs(names)} {'waits' if len(names) == 1 else 'wait'}: {why}"
    for each in plan.unplanned:
        program = each.submission.program
        yield "not planned", f"{each.submission.id} ({program}): {sentence(each.reason, spell_arguments)}"
    if plan.outcome is not None:
        yield "machines", _machines(plan)
        if plan.bound_usd is not None:
            yield "bound", f"no schedule of these jobs on these machines costs less than {format_usd(plan.bound_usd)}"
        if any(planned.on_time_probability is not None for planned in plan.jobs):
            yield "deadlines", "in brackets: the probability of meeting the deadline, given the uncertain prediction"
        yield "assumed", _assumptions(plan)
    for remark in plan.table.remarks:
        yield "assumed", remark_sentence(remark, _spell_for_submit)


def _spell_for_submit(arguments: Mapping[str, Scalar]) -> str:
    """Arguments of a job are set when it is submitted."""
    return f"{spell_arguments(arguments)} to trainfare queue submit"


def _machines(plan: QueuePlan) -> str:
    prices = [f"{name} {format_usd_per_hour(offer.usd_per_hour)}" for name, offer in plan.table.offers.items()]
    return f"at most {plural(plan.nodes, 'node')}, each one of: {', '.join(prices)}"


def _assumptions(plan: QueuePlan) -> str:
    delays = plan.table.delays
    has_spot = any(offer.market == "spot" for offer in plan.table.offers.values())
    reclaims = "; spot nodes are reclaimed as in one random draw" if has_spot else ""
    migration = format_duration(delays.checkpoint_seconds + delays.restart_seconds)
    return (
        "every prediction is right and no further job is submitted; a node boots in "
        f"{format_duration(delays.boot_seconds)}, a migration takes {migration}{reclaims}"
    )


def _list_jobs(names: Sequence[str]) -> str:
    shown = ", ".join(names[:JOBS_NAMED])
    return shown if len(names) <= JOBS_NAMED else f"{shown} and {len(names) - JOBS_NAMED} more"


def _moment(moment: datetime) -> str:
    """`Wed 09:00`, or `2026-12-24 09:00` if it is not within the next days, in local time."""
    local = moment.astimezone()
    days = (moment - datetime.now(UTC)).total_seconds() / 86400
    return f"{local:%a %H:%M}" if 0 <= days < NEAR_DAYS else f"{local:%Y-%m-%d %H:%M}"


def _table(names: Sequence[str]) -> Table:
    table = new_table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
