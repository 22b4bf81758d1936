"""`trainfare train`, `run`, `watch`, `logs`, `stop`, `move`, `receipt`, `reap`: from a program to its receipt."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.programs.sources import ProgramSource, read_program
from trainfare.app.running import run as app
from trainfare.app.running.moves import ask_to_move, propose_move
from trainfare.app.running.send import summarize_sending
from trainfare.app.running.status import show_run
from trainfare.cli.cards.profile_screen import Screen
from trainfare.cli.cards.run import RunScreen, print_receipt
from trainfare.cli.console import out, print_json, print_note, print_points
from trainfare.cli.leftovers import read_run_settings
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Budget, Deadline, GoalKind, Json, Quiet, Store
from trainfare.cli.parsing import parse_launcher, parse_seconds
from trainfare.cli.use_cases import (
    agree,
    attend,
    last_lines,
    read_output,
    remote_proposal,
    start_run,
    stop_run,
)
from trainfare.errors import UsageError
from trainfare.model.plan import Goal, Plan
from trainfare.model.run import Run
from trainfare.model.supplies import Install
from trainfare.recommender.names import machine_name
from trainfare.runner.decide import can_resume
from trainfare.runner.status import RunStatus
from trainfare.settings import Settings, read_settings
from trainfare.store.server import is_server
from trainfare.units import format_duration, format_usd
from trainfare.views.runs import (
    move_sentence,
    offer_sentence,
    receipt_record,
    run_record,
    state_sentence,
    traffic_records,
    traffic_sentences,
)
from trainfare.views.sending import proposal_record, sending_record, sending_sentences

RunId = Annotated[str, typer.Argument(metavar="RUN", help="As `trainfare runs list` shows it.")]


MaxDuration = Annotated[str | None, typer.Option(metavar="TIME", help="Stop after this time: 3h.", show_default=False)]
SetupCommand = Annotated[
    str | None, typer.Option("--setup", metavar="COMMAND", help="Run before the program.", show_default=False)
]
InstallWhat = Annotated[
    Install | None,
    typer.Option(
        "--install",
        metavar="auto|none",
        help="Install what its folder names (here: none).",
        show_default=False,
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=SOURCE",
        help="Data: path, URL or machine:/path (repeatable).",
        show_default=False,
    ),
]
AllowPrivate = Annotated[bool, typer.Option("--allow-private", help="URLs of data may be private addresses.")]
Variable = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="Set a variable of the program (repeatable).", show_default=False),
]
Folder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The program's folder, if not this one.", show_default=False)
]
Secret = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Pass this variable on; never stored.", show_default=False),
]
Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Bring results here, not to its folder.", show_default=False)
]
ResumeFlag = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="To go on from a checkpoint: '--resume {}', or auto.",
        show_default=False,
    ),
]
Attempts = Annotated[int, typer.Option(metavar="N", help="Start it N times at most.", min=1)]
Patience = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Go on elsewhere if its machine is silent so long.", show_default=False),
]
AutoMove = Annotated[bool, typer.Option("--auto", help="Move to a better machine if it pays.")]
Nodes = Annotated[
    int | None, typer.Option(metavar="N", help="Run on so many machines at once.", min=1, show_default=False)
]
LauncherName = Annotated[
    str | None,
    typer.Option(
        "--launcher",
        metavar="NAME",
        help="How nodes find each other: torchrun, env, ray…",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Dryrun = Annotated[bool, typer.Option("--dryrun", help="Only show what would be run.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once the program runs.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningOptions:
    """Options of carrying a run out, the same for `train` and `run`."""

    budget: Budget = None
    deadline: Deadline = None
    max_duration: MaxDuration = None
    setup_command: SetupCommand = None
    install: InstallWhat = None
    env: Variable = None
    secret: Secret = None
    data: Data = None
    allow_private: AllowPrivate = False
    folder: Folder = None
    results: Results = None
    resume_flag: ResumeFlag = None
    attempts: Attempts = 3
    patience: Patience = None
    auto: AutoMove = False
    nodes: Nodes = None
    launcher: LauncherName = None
    yes: Yes = False
    dryrun: Dryrun = False
    detach: Detach = False

    @property
    def deadline_seconds(self) -> float | None:
        return parse_seconds("deadline", self.deadline) if self.deadline else None

    @property
    def run_options(self) -> app.RunOptions:
        return app.RunOptions(
            budget_usd=self.budget,
            deadline_seconds=self.deadline_seconds,
            longest_seconds=parse_seconds("max_duration", self.max_duration) if self.max_duration else None,
            setup=self.setup_command,
            install=self.install,
            variables=_parse_variables(self.env or ()),
            data=tuple(self.data or ()),
            allow_private=self.allow_private,
            folder=self.folder,
            secrets=tuple(self.secret or ()),
            results=self.results,
            resume_flag=self.resume_flag,
            attempts=self.attempts,
            patience_seconds=parse_seconds("patience", self.patience) if self.patience else None,
            auto_move=self.auto,
            nodes=self.nodes,
            launcher=parse_launcher(self.launcher) if self.launcher else None,
        )


def _parse_variables(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(f"{text!r} is not NAME=VALUE.", field="env")
        found[name] = value
    return found


@expand_options
def train(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The program.", show_default=False)],
    *,
    goal: GoalKind = None,
    length: LengthOptions,
    running: RunningOptions,
    quiet: Quiet = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Profile a program, recommend a machine, train on it, and print the receipt."""

    settings = read_run_settings(store)
    kind = goal or ("fastest" if running.budget is not None and running.deadline is None else settings.goal)
    wanted = Goal(kind=kind, deadline_seconds=running.deadline_seconds, budget_usd=running.budget)
    source = _read_program(command, running, settings)
    if is_server(settings.store):
        say = print_note if not quiet else lambda _message: None
        found, options = remote_proposal(
            source, running.run_options, goal=wanted, length=length.keywords, settings=settings, on_message=say
        )
        if options.on != found.plan.chosen.candidate.offer.vm_type.key:
            _print_unreachable(found.plan)
        _carry_out(agree(None, options, settings=settings), options, running, settings, json=json)
        return
    from trainfare.app.running.train import propose  # the models of time and cost, which other commands start without

    screen = Screen(quiet=quiet)
    profiling = ProfileOptions(
        settings=settings,
        on_workspace=screen.workspace,
        on_progress=screen.progress,
        on_output=None if quiet else screen.output,
    )
    proposal = propose(source, running.run_options, profiling=profiling, goal=wanted, **length.keywords)
    screen.clear()
    if not proposal.is_the_recommended:
        _print_unreachable(proposal.recommendation.plan)
    _carry_out(proposal.run, running.run_options, running, settings, json=json)


def _print_unreachable(plan: Plan) -> None:
    best = plan.chosen
    print_note(
        f"The best machine is {machine_name(best.candidate.offer)}: {format_duration(best.seconds.value)}, "
        f"{format_usd(best.usd.value)}; no door leads to it from here. The best one that can be launched:"
    )


@expand_options
def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND]", help="A command, archive or task file; else the profile's.", show_default=False
        ),
    ] = None,
    *,
    plan: Annotated[str | None, typer.Option(metavar="PLAN", help="Carry out this plan.", show_default=False)] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="Predict by this profile.", show_default=False)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="Run there: local/here, ssh/NAME, aws/TYPE.", show_default="the plan's"),
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="Carry out both segments of a split plan.")] = False,
    running: RunningOptions,
    json: Json = False,
    store: Store = None,
) -> None:
    """Run a training on a machine, watch it, and print its receipt."""

    settings = read_run_settings(store)
    source = _read_program(command, running, settings) if command else None
    options = replace(running.run_options, plan_id=plan, profile_id=profile, on=on, split=split)
    _carry_out(agree(source, options, settings=settings), options, running, settings, json=json)


def watch(run_id: RunId, json: Json = False, store: Store = None) -> None:
    """Watch a run until it has ended; Ctrl-C leaves it running."""
    _attend(run_id, read_run_settings(store), json=json)


def stop(run_id: RunId, json: Json = False, store: Store = None) -> None:
    """Stop a run: it saves, its results come home, its machine ends."""
    settings = read_run_settings(store)
    _print_end(stop_run(run_id, settings=settings), settings, json=json)


def move(
    run_id: RunId,
    on: Annotated[str, typer.Option(metavar="MACHINE", help="Go on there: local/here, ssh/name.", show_default=False)],
    yes: Yes = False,
    detach: Detach = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Move a run: it saves, its machine ends, and it goes on from its checkpoint on another."""
    settings = read_settings({"store": store})
    proposed = propose_move(run_id, on, settings=settings)
    print_note(move_sentence(proposed.run, proposed.machines, proposed.to))
    if not yes and not _confirmed("Move it?"):
        print_note("Nothing was moved.")
        raise typer.Exit(1)
    ask_to_move(proposed, settings=settings)
    _attend(run_id, settings, json=json, until_started=detach)


def receipt(run_id: RunId, json: Json = False, store: Store = None) -> None:
    """Show what a run was predicted to take and cost, and what it did."""
    found = show_run(run_id, settings=read_settings({"store": store}))
    if json:
        print_json(receipt_record(found.receipt) | {"traffic": traffic_records(found.traffic)})
    else:
        print_receipt(found.receipt)
        print_points(traffic_sentences(found.traffic))


def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    store: Store = None,
) -> None:
    """Print what the program printed."""
    settings, offset = read_settings({"store": store}), 0
    while True:
        state = show_run(run_id, settings=settings).life.state
        text, offset = read_output(run_id, settings=settings, offset=offset)
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        if not follow or state == "ended":
            return
        time.sleep(1.0)


def reap(json: Json = False, store: Store = None) -> None:
    """End machines that no run needs, and go on with runs that are not watched."""
    found = app.reap(settings=read_settings({"store": store}))
    if json:
        print_json({"terminated": found.terminated, "resumed": found.resumed, "unreachable": found.unreachable})
        return
    for key in found.terminated:
        out().print(f"{key}: asked to end; no run needs it")
    for run_id in found.resumed:
        out().print(f"{run_id}: looked after")
    for sentence in found.unreachable:
        print_note(f"note: {sentence}")
    if not (found.terminated or found.resumed or found.unreachable):
        print_note("Nothing is left behind.")


def _read_program(command: Sequence[str], running: RunningOptions, settings: Settings) -> ProgramSource:
    source = read_program(command, settings, folder=running.folder)
    for note in source.notes:
        print_note(f"note: {note}")
    return source


def _carry_out(
    agreed: Run, options: app.RunOptions, running: RunningOptions, settings: Settings, *, json: bool
) -> None:
    print_note(offer_sentence(agreed))
    sending = None if is_server(settings.store) else summarize_sending(agreed)
    for sentence in () if sending is None else sending_sentences(sending):
        print_note(f"  {sentence}")
    if running.dryrun:
        if json:
            record = proposal_record(agreed)
            print_json(record if sending is None else record | {"sending": sending_record(sending)})
        return
    if not running.yes and not _confirmed():
        print_note("Nothing was started.")
        raise typer.Exit(1)
    if running.detach and agreed.patience_seconds is not None:
        print_note("note: without `trainfare watch`, the machine ends the program when the patience is over")
    run_id = start_run(agreed, options, settings=settings)
    _attend(run_id, settings, json=json, until_started=running.detach)


def _confirmed(question: str = "Start it?") -> bool:
    if not sys.stdin.isatty():
        raise UsageError("The question cannot be answered here, because there is no terminal.", field="yes")
    return typer.confirm(question, default=False, err=True)


def _attend(run_id: str, settings: Settings, *, json: bool, until_started: bool = False) -> None:
    screen = RunScreen()
    try:
        status = attend(run_id, settings=settings, on_status=screen, until_started=until_started)
    except KeyboardInterrupt:
        screen.close()
        print_note(f"{run_id} goes on without you. Return to it: trainfare watch {run_id}")
        raise typer.Exit(130) from None
    screen.close()
    if status.life.state == "ended":
        _print_end(status, settings, json=json)
    else:
        print_note(f"{run_id}: {state_sentence(status)}. Return to it: trainfare watch {run_id}")


def _print_end(status: RunStatus, settings: Settings, *, json: bool) -> None:
    lines = last_lines(status, settings=settings) if status.life.outcome == "failed" else []
    if json:
        print_json(run_record(status) | {"receipt": receipt_record(status.receipt), "last_output": lines})
    else:
        for line in lines:
            print_note(f"  {line}")
        print_note(f"{status.run.id} {state_sentence(status)}")
        print_receipt(status.receipt)
        print_points(traffic_sentences(status.traffic))
    if status.life.outcome == "lost" and not can_resume(status.run, status.life):
        print_note("note: with --resume-flag '--resume {}' a program goes on from its checkpoint on the next machine")
    if status.life.outcome != "succeeded":
        raise typer.Exit(1)
