"""`trainfare queue`: the stored queue of a team."""

from typing import Annotated

import typer

from trainfare.app.figures import require_drawable
from trainfare.app.queue.figures import draw_queue_plan
from trainfare.app.queue.listing import cancel_jobs, list_queue
from trainfare.app.queue.plan import plan_queue
from trainfare.app.queue.question import QueueQuestion
from trainfare.app.queue.submit import submit_job
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.queue import print_queue, print_queue_plan, print_submission
from trainfare.cli.console import print_json, print_note
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Boot, Json, Plot, Profiles, Setup, Spot, Store
from trainfare.cli.parsing import parse_deadline, parse_user_quota
from trainfare.cli.use_cases import refuse_on_server, submit_on_server
from trainfare.settings import read_settings
from trainfare.store.server import is_server
from trainfare.views.queue import queue_plan_record, submission_record, submission_result_record

SUBMIT = "trainfare queue submit PROFILE --deadline 6h"
NOTHING_PLANNED = 3
"""The exit code of InfeasibleError: jobs wait, and none of them can be planned."""


app = typer.Typer(help="Jobs with deadlines: submit, list, plan, cancel.", no_args_is_help=True)


@app.command("submit")
@expand_options
def submit_command(
    *,
    profiles: Profiles = None,
    length: LengthOptions,
    deadline: Annotated[
        str | None, typer.Option(metavar="WHEN", help="6h, 2d, or 2026-11-18T09:00.", show_default="none")
    ] = None,
    late_usd_per_hour: Annotated[
        float | None,
        typer.Option(min=0, metavar="USD", help="Cost of each hour after the deadline.", show_default="32.4"),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most GPUs of a machine it can use.", show_default="as profiled"),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Owner of the job.", show_default="you")] = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Submit a training to the queue."""

    settings, when = read_settings({"store": store}), None if deadline is None else parse_deadline(deadline)
    if is_server(settings.store):
        refuse_on_server(settings, user=user)
        submission = submit_on_server(
            profiles or (),
            settings=settings,
            deadline=when,
            gpus=gpus,
            late_usd_per_hour=late_usd_per_hour,
            **length.keywords,
        )
        if json:
            print_json(submission_record(submission))
        else:
            print_queue((submission,))
        return
    found = submit_job(
        profiles or (),
        **length.keywords,
        gpus=gpus,
        deadline=when,
        late_usd_per_hour=late_usd_per_hour,
        user=user,
        settings=settings,
    )
    if json:
        print_json(submission_result_record(found, spell_arguments))
    else:
        print_submission(found)


@app.command("list")
def list_command(json: Json = False, store: Store = None) -> None:
    """List the queue, the oldest job first."""

    listing = list_queue(settings=read_settings({"store": store}))
    for sentence in listing.damaged:
        print_note(f"note: {sentence}")
    if json:
        print_json([submission_record(submission) for submission in listing.submissions])
    elif listing.submissions:
        print_queue(listing.submissions)
    elif not listing.damaged:
        print_note(f"The queue is empty. Submit a training: {SUBMIT}")


@app.command("cancel")
def cancel_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="As `trainfare queue list` shows them.")],
    json: Json = False,
    store: Store = None,
) -> None:
    """Remove jobs from the queue."""

    cancelled = cancel_jobs(ids, settings=read_settings({"store": store}))
    if json:
        print_json({"cancelled": cancelled})
    else:
        print_note(f"cancelled {', '.join(cancelled)}")


@app.command("plan")
def plan_command(
    nodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum number of nodes.", show_default="one per job")
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A machine type to plan with (repeatable).", show_default="some that suit the jobs"
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME", help="Scheduling policy; `schedule compare --help` lists all.")
    ] = "trainfare",
    spot: Spot = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="USER=GPUS", help="Most GPUs of a user at once (repeatable).", show_default=False),
    ] = None,
    boot: Boot = None,
    setup: Setup = None,
    plot: Plot = None,
    json: Json = False,
    store: Store = None,
) -> None:
    """Plan the queue: what runs now, and when each job ends."""

    files = [require_drawable(path) for path in plot or ()]
    plan = plan_queue(
        QueueQuestion(
            machines=tuple(machine or ()),
            nodes=nodes,
            policy=policy,
            spot=spot,
            quotas=tuple(parse_user_quota(text) for text in quota or ()),
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
        print_json(queue_plan_record(plan, spell_arguments))
    elif plan.jobs or plan.unplanned:
        print_queue_plan(plan)
    elif not plan.table.damaged:
        print_note(f"The queue is empty, so there is nothing to plan. Submit a training: {SUBMIT}")
    if plan.unplanned and not plan.jobs:
        raise typer.Exit(NOTHING_PLANNED)
