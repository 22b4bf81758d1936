"""`trainfare probe`: what to measure next, and measure it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainfare.cli.options import (
    Budget,
    Deadline,
    Epochs,
    GoalKind,
    IterationsPerEpoch,
    Json,
    Only,
    Profiles,
    Spot,
    Store,
    WeightTime,
)

if TYPE_CHECKING:
    from trainfare.settings import Settings


def probe(
    profile: Profiles = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be measured, and why.")] = False,
    goal: GoalKind = None,
    weight_time: WeightTime = None,
    deadline: Deadline = None,
    budget: Budget = None,
    epochs: Epochs = None,
    only: Only = None,
    spot: Spot = False,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Probes at most.")] = 8,
    max_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of one probe, once it trains (1min).", show_default=False)
    ] = None,
    iterations_per_epoch: IterationsPerEpoch = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither its output nor progress.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Measure where that saves more than it costs.

    Without --plan it measures: the program of the profile runs for a few iterations on slices of this machine, one
    after another, as long as that pays. Machines that no door leads to yet are named.
    """
    from trainfare.cli.asked import goal_of, scope_of
    from trainfare.settings import read_settings

    settings = read_settings({"store": store, "goal": goal})
    asked: dict[str, Any] = {
        "goal": goal_of(
            goal,
            settings.goal,
            weight_time=weight_time,
            deadline=deadline,
            budget=budget,
            confidence=0.9,
            target=None,
        ),
        "scope": scope_of(only or (), (), (), nodes=None, spot=spot, reserved=None),
        "epochs": epochs,
        "iterations_per_epoch": iterations_per_epoch,
    }
    if plan:
        _plan(profile or [], asked, settings, as_json=json)
    else:
        _measure(profile or [], asked, settings, most=most, max_time=max_time, quiet=quiet, as_json=json)


def _plan(profile: list[str], asked: dict[str, Any], settings: "Settings", *, as_json: bool) -> None:
    from trainfare.app.recommending.probe import plan_probes
    from trainfare.cli.probe_card import plan_record, print_plan

    found = plan_probes(profile, settings=settings, **asked)
    if as_json:
        from trainfare.cli.console import print_json

        print_json(plan_record(found))
    else:
        print_plan(found)


def _measure(
    profile: list[str],
    asked: dict[str, Any],
    settings: "Settings",
    *,
    most: int,
    max_time: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from trainfare.app.recommending.probe import Step, run_probes
    from trainfare.cli.asked import seconds_of
    from trainfare.cli.console import print_json, print_note
    from trainfare.cli.probe_card import beginning_line, print_probing, probing_record, step_line
    from trainfare.cli.profile_screen import Screen

    screen = Screen(quiet=quiet)

    def done(step: Step) -> None:
        screen.clear()
        print_note(step_line(step))

    found = run_probes(
        profile,
        most=most,
        on_probe=lambda following: print_note(beginning_line(following)),
        on_step=done,
        profiling={
            "max_seconds": None if max_time is None else seconds_of("--max-time", max_time),
            "on_workspace": screen.workspace,
            "on_progress": screen.progress,
            "on_output": None if quiet else screen.output,
        },
        settings=settings,
        **asked,
    )
    if as_json:
        print_json(probing_record(found))
    else:
        print_probing(found)
    if found.interrupted:
        raise typer.Exit(130)
    if found.steps and all(step.profile is None for step in found.steps):
        raise typer.Exit(1)
