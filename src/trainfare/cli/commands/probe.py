"""`trainfare probe`: what to measure next, and measure it."""

from typing import Annotated

import typer

from trainfare.app.probing.machines import ProbeTerms
from trainfare.app.probing.planned import plan_probes, run_probes
from trainfare.app.probing.probe import probe_machines, split_words
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.stated import LengthKeywords
from trainfare.cli.cards.probe import beginning_line, print_machine_probing, print_plan, print_probing, step_line
from trainfare.cli.cards.probe_screen import ProbeScreen
from trainfare.cli.cards.profile_screen import Screen
from trainfare.cli.console import print_json, print_note
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Deadline, Exclude, GoalKind, Json, Only, Quiet, Spot, Store, WeightTime
from trainfare.cli.parsing import parse_goal, parse_scope, parse_seconds
from trainfare.cli.probe_options import MeasuredOptions, SendingOptions
from trainfare.errors import UsageError
from trainfare.model.plan import Goal
from trainfare.model.probing import ProbeResult
from trainfare.model.scope import Scope
from trainfare.settings import Settings, read_settings
from trainfare.views.probing import machine_probing_record, probing_plan_record, probing_result_record


class ProbingQuestion(LengthKeywords):
    """The arguments that planning and measuring share."""

    goal: Goal
    scope: Scope
    settings: Settings


@expand_options
def probe(
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROFILE|COMMAND",
            help="Else: the newest profile.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="MACHINE,…", help="Measure on these: ssh/name, local/half, here.", show_default=False),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be measured, and why.")] = False,
    goal: GoalKind = None,
    weight_time: WeightTime = None,
    deadline: Deadline = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="USD", help="Maximum cost; with --on, of all probes.", show_default=False),
    ] = None,
    length: LengthOptions,
    only: Only = None,
    exclude: Exclude = None,
    spot: Spot = False,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of probes.")] = 8,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Maximum time of one probe, start included.", show_default=False)
    ] = None,
    measured: MeasuredOptions,
    sending: SendingOptions,
    quiet: Quiet = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Take measurements that save more than they cost.

    The program runs for a few iterations on your servers and on slices of this machine, as long as a measurement is
    expected to save more than it costs. With --on it runs on the machines that you name, all at once.
    """

    settings = read_settings({"store": store, "goal": goal})
    if on and plan:
        raise UsageError("a plan chooses the machines itself: give one of the two.", field="plan")
    goal_of_training = parse_goal(
        goal,
        settings.goal,
        weight_time=weight_time,
        deadline=deadline,
        budget=None if on else budget,
        confidence=0.9,
        target=None,
    )
    question: ProbingQuestion = {
        "goal": goal_of_training,
        "scope": parse_scope(only or (), (), (), exclude=exclude or (), nodes=None, spot=spot, reserved=None),
        **length.keywords,
        "settings": settings,
    }
    seconds = None if max_time is None else parse_seconds("max_time", max_time)
    if on:
        _measure_on(
            [name for text in on for name in text.split(",")],
            words or [],
            question,
            terms=sending.terms(budget),
            profiling=measured.profiling(seconds),
            quiet=quiet,
            as_json=json,
        )
        return
    measured.require_machines()
    if plan:
        _plan(words or [], question, as_json=json)
    else:
        _measure(words or [], question, most=most, max_seconds=seconds, quiet=quiet, as_json=json)


def _measure_on(
    machines: list[str],
    words: list[str],
    question: ProbingQuestion,
    *,
    terms: ProbeTerms,
    profiling: ProfileOptions,
    quiet: bool,
    as_json: bool,
) -> None:
    screen = ProbeScreen(quiet=quiet)
    command, profiles = split_words(words, question["settings"])
    try:
        found = probe_machines(
            machines,
            command,
            profile_ids=profiles,
            terms=terms,
            profiling=profiling,
            on_status=screen.status,
            on_probe=screen.probe,
            **question,
        )
    finally:
        screen.close()
    if as_json:
        print_json(machine_probing_record(found))
    else:
        print_machine_probing(found)
    if found.interrupted:
        raise typer.Exit(130)
    if not any(probe.profile for probe in found.probes):
        raise typer.Exit(1)


def _plan(profile: list[str], question: ProbingQuestion, *, as_json: bool) -> None:
    found = plan_probes(profile, **question)
    if as_json:
        print_json(probing_plan_record(found))
    else:
        print_plan(found)


def _measure(
    profile: list[str],
    question: ProbingQuestion,
    *,
    most: int,
    max_seconds: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    screen = Screen(quiet=quiet)

    def done(step: ProbeResult) -> None:
        screen.clear()
        print_note(step_line(step))

    found = run_probes(
        profile,
        most=most,
        on_probe=lambda following: print_note(beginning_line(following)),
        on_step=done,
        profiling=ProfileOptions(
            max_seconds=max_seconds,
            on_workspace=screen.workspace,
            on_progress=screen.progress,
            on_output=None if quiet else screen.output,
        ),
        **question,
    )
    if as_json:
        print_json(probing_result_record(found))
    else:
        print_probing(found)
    if found.interrupted:
        raise typer.Exit(130)
    if found.steps and all(step.profile is None for step in found.steps):
        raise typer.Exit(1)
