"""`trainfare schedule submit`, `queue`, `withdraw` and `plan`: the queue of a team, kept in the store."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.figures import require_drawable
from trainfare.app.queue.figures import draw_queue_plan
from trainfare.app.queue.listing import list_queue, withdraw_jobs
from trainfare.app.queue.plan import plan_queue
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.queue.submit import submit_job
from trainfare.cli.console import print_json, print_note
from trainfare.cli.options import Boot, IterationsPerEpoch, Json, Setup, Store
from trainfare.cli.queue_card import print_queue, print_queue_plan, print_submitted
from trainfare.errors import UsageError
from trainfare.settings import read_settings
from trainfare.units import parse_duration
from trainfare.views.queue import queue_plan_record, submission_record, submission_result_record

SUBMIT = "trainfare schedule submit PROFILE --deadline 6h"
NOTHING_PLANNED = 3
"""The exit code of InfeasibleError: jobs wait, and none of them can be planned."""


def add_to(app: typer.Typer) -> None:
    """Gives `trainfare schedule` the commands of the queue."""
    app.command("submit")(submit_command)
    app.command("queue")(queue_command)
    app.command("withdraw")(withdraw_command)
    app.command("plan")(plan_command)


def submit_command(
    profiles: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROFILE]...", help="Of one program; the newest when none is named.", show_default=False
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many.", show_default="as its program tells")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="WHEN", help="6h, 2d; or 2026-11-18T09:00.", show_default="none")
    ] = None,
    late_usd_per_hour: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="What an hour late costs.", show_default="32.4")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="It can share so many of a machine.", show_default="as it was seen"),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Whose it is.", show_default="you")] = None,
    iterations_per_epoch: IterationsPerEpoch = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Put a training into the queue."""

    found = submit_job(
        profiles or (),
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        gpus=gpus,
        deadline=None if deadline is None else deadline_of(deadline),
        late_usd_per_hour=late_usd_per_hour,
        user=user,
        settings=read_settings({"store": store}),
    )
    if json:
        print_json(submission_result_record(found))
        return

    print_submitted(found)


def queue_command(json: Json = False, store: Store = None) -> None:
    """List what waits, the oldest first."""

    waiting = list_queue(settings=read_settings({"store": store}))
    for sentence in waiting.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([submission_record(submission) for submission in waiting.submissions])
    elif waiting.submissions:
        print_queue(waiting.submissions)
    elif not waiting.damaged:
        print_note(f"Nothing waits. Submit a training: {SUBMIT}")


def withdraw_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `trainfare schedule queue` shows them.")],
    json: Json = False,
    store: Store = None,
) -> None:
    """Take trainings out of the queue."""

    withdrawn = withdraw_jobs(ids, settings=read_settings({"store": store}))
    if json:
        print_json({"withdrawn": withdrawn})
    else:
        print_note(f"withdrawn {', '.join(withdrawn)}")


def plan_command(
    nodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Machines at once.", show_default="one a job")
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="To plan with; repeat it.", show_default="some that suit the jobs"),
    ] = None,
    policy: Annotated[str, typer.Option(metavar="NAME", help="Who decides.")] = "trainfare",
    spot: Annotated[bool, typer.Option("--spot", help="Also on the spot market.")] = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="USER=GPUS", help="At once, of one user; repeat it.", show_default=False),
    ] = None,
    boot: Boot = None,
    setup: Setup = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw it: .html, .png, .svg or .json.", show_default=False),
    ] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """What to run now and where; when each job is done."""

    files = [require_drawable(path) for path in plot or ()]
    plan = plan_queue(
        QueueQuestion(
            machines=tuple(machine or ()),
            nodes=nodes,
            policy=policy,
            spot=spot,
            quotas=tuple(quota_of(word) for word in quota or ()),
        ),
        settings=read_settings({"store": store, "boot_seconds": boot, "setup_seconds": setup}),
    )
    for sentence in plan.table.damaged:
        print_note(f"note: {sentence}")
    if files and plan.jobs:
        figure = draw_queue_plan(plan)
        for path in files:
            figure.save(path)
            print_note(f"drawn: {path}")
    if json:
        print_json(queue_plan_record(plan))
    elif plan.jobs or plan.unplanned:
        print_queue_plan(plan)
    elif not plan.table.damaged:
        print_note(f"Nothing waits, so there is nothing to plan. Submit a training: {SUBMIT}")
    if plan.unplanned and not plan.jobs:
        raise typer.Exit(NOTHING_PLANNED)


def deadline_of(text: str) -> timedelta | datetime:
    """How long from now, or a moment; one without a time zone is of this machine's."""

    wrong = UsageError(f"--deadline is how long from now, as 6h or 2d, or a moment, as 2026-11-18T09:00, not {text!r}.")
    text = text.strip()
    try:
        if text.replace(".", "").isdecimal():  # seconds elsewhere, but nobody means a deadline in 6 seconds
            raise wrong
        return timedelta(seconds=parse_duration(text))
    except OverflowError:
        raise UsageError(f"the deadline {text} is on no calendar. Give a nearer one, or none.") from None
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None
    if len(text) <= len("2026-11-18"):
        raise UsageError(f"--deadline {text} has no time of day: say {text}T09:00.")
    return moment


def quota_of(text: str) -> tuple[str, int]:
    user, equals, gpus = text.rpartition("=")
    if not equals or not user.strip() or not gpus.isdecimal():
        raise UsageError(f"--quota is a user and a number of GPUs, as alice=8, not {text!r}.")
    return user.strip(), int(gpus)
