"""`trainfare probe`: what to measure next, and measure it."""

from typing import Annotated

import typer

from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.recommending.probe import plan_probes, run_probes
from trainfare.app.stated import LengthKeywords
from trainfare.cli.cards.probe import beginning_line, print_plan, print_probing, step_line
from trainfare.cli.cards.profile_screen import Screen
from trainfare.cli.console import print_json, print_note
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import (
    Budget,
    Deadline,
    Exclude,
    GoalKind,
    Json,
    Only,
    Profiles,
    Quiet,
    Spot,
    Store,
    WeightTime,
)
from trainfare.cli.parsing import parse_goal, parse_scope, parse_seconds
from trainfare.model.plan import Goal
from trainfare.model.probing import ProbeResult
from trainfare.model.scope import Scope
from trainfare.settings import Settings, read_settings
from trainfare.views.probing import probing_plan_record, probing_result_record


class ProbingQuestion(LengthKeywords):
    """The arguments that planning and measuring share."""

    goal: Goal
    scope: Scope
    settings: Settings


@expand_options
def probe(
    *,
    profile: Profiles = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be measured, and why.")] = False,
    goal: GoalKind = None,
    weight_time: WeightTime = None,
    deadline: Deadline = None,
    budget: Budget = None,
    length: LengthOptions,
    only: Only = None,
    exclude: Exclude = None,
    spot: Spot = False,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of probes.")] = 8,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Maximum time of one probe, start included.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Take measurements that save more than they cost.

    The program of the profile runs for a few iterations on slices of this machine, one after another, as long as a
    measurement is expected to save more than it costs. With --plan nothing is measured.
    """

    settings = read_settings({"store": store, "goal": goal})
    question: ProbingQuestion = {
        "goal": parse_goal(
            goal,
            settings.goal,
            weight_time=weight_time,
            deadline=deadline,
            budget=budget,
            confidence=0.9,
            target=None,
        ),
        "scope": parse_scope(only or (), (), (), exclude=exclude or (), nodes=None, spot=spot, reserved=None),
        **length.keywords,
        "settings": settings,
    }
    if plan:
        _plan(profile or [], question, as_json=json)
    else:
        _measure(profile or [], question, most=most, max_time=max_time, quiet=quiet, as_json=json)


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
    max_time: str | None,
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
            max_seconds=None if max_time is None else parse_seconds("max_time", max_time),
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
