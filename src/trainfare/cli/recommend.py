"""`trainfare recommend`: time, cost and certainty on every machine, and the one to take."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainfare.cli.options import (
    Boot,
    Budget,
    DataGib,
    Deadline,
    DiskGib,
    Epochs,
    GoalKind,
    IterationsPerEpoch,
    Json,
    Only,
    Profiles,
    ResultsGib,
    Setup,
    Spot,
    Store,
    WeightTime,
)

if TYPE_CHECKING:
    from trainfare.app.recommending.recommend import Recommendation
    from trainfare.model.estimate import Estimate
    from trainfare.model.plan import Plan

SHOWN = 8
"""Lines of the table, unless all are asked for."""


def recommend(
    profile: Profiles = None,
    goal: GoalKind = None,
    weight_time: WeightTime = None,
    deadline: Deadline = None,
    budget: Budget = None,
    confidence: Annotated[float, typer.Option(metavar="P", help="How surely the limits hold.")] = 0.9,
    epochs: Epochs = None,
    target: Annotated[
        str | None, typer.Option(metavar="METRIC=VALUE", help="Or until there: accuracy=0.9.", show_default=False)
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="B|any",
            help="Of all GPUs; unless said as profiled, or any if the command sets it. Repeat it.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Machines together at most (1; 8 for DDP).", show_default=False),
    ] = None,
    only: Only = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="So many machines, or GPUs of a provider.", show_default=False),
    ] = None,
    spot: Spot = False,
    reserved: Annotated[
        bool | None,
        typer.Option(
            "--reserved/--no-reserved",
            help="Commitments to be bought too; or none.",
            show_default=False,
        ),
    ] = None,
    legs: Annotated[bool, typer.Option("--legs", help="It may move to another machine midway.")] = False,
    early: Annotated[
        str | None,
        typer.Option(metavar="METRIC=VALUE[@TIME]", help="Wanted before the end: loss=0.5@2h.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="Hold it against this one.", show_default=False)
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw it: .html, .png, .svg or .json.", show_default=False),
    ] = None,
    view: Annotated[
        Literal["fare", "epochs", "batches", "all"],
        typer.Option(metavar="fare|epochs|batches|all", help="What --plot draws."),
    ] = "fare",
    iterations_per_epoch: IterationsPerEpoch = None,
    boot: Boot = None,
    setup: Setup = None,
    disk_gib: DiskGib = None,
    data_gib: DataGib = None,
    results_gib: ResultsGib = None,
    show_all: Annotated[bool, typer.Option("--all", help="Every machine; with --json every candidate.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Which machine to train on: how long, how much, how sure."""
    from trainfare.app.figures import require_drawable
    from trainfare.app.recommending.recommend import recommend
    from trainfare.cli.asked import early_of, goal_of, scope_of
    from trainfare.errors import UsageError
    from trainfare.model.bill import Overheads
    from trainfare.settings import read_settings

    files = [require_drawable(path) for path in plot or ()]
    if view != "fare" and not files:
        raise UsageError(f"--view says what --plot draws: --plot FILE --view {view}.")
    settings = read_settings({"store": store, "goal": goal, "boot_seconds": boot, "setup_seconds": setup})
    found = recommend(
        profile or (),
        goal=goal_of(
            goal,
            settings.goal,
            weight_time=weight_time,
            deadline=deadline,
            budget=budget,
            confidence=confidence,
            target=target,
        ),
        scope=scope_of(only or (), quota or (), batch or (), nodes=nodes, spot=spot, reserved=reserved),
        epochs=epochs,
        legs=legs,
        early=None if early is None else early_of(early),
        baseline=baseline,
        iterations_per_epoch=iterations_per_epoch,
        overheads=Overheads(disk_gib=disk_gib, data_gib=data_gib, results_gib=results_gib),
        settings=settings,
    )
    if files:
        figure = found.figure(view)
        for path in files:
            figure.save(path)
    if json:
        from trainfare.app.records import recommendation_record
        from trainfare.cli.console import print_json

        print_json(recommendation_record(found, every=show_all))
        return
    from trainfare.cli.plan_card import print_plan

    every = _every_line(found)
    lines = every if show_all else _worth_a_look(found.plan)
    more = [f"{len(every) - len(lines)} more: --all"] if len(every) > len(lines) else []
    print_plan(found.plan, lines, notes=[f"plan {found.plan.id} kept", *more, *(f"drawn: {path}" for path in files)])


def _worth_a_look(plan: "Plan") -> "tuple[Estimate, ...]":
    """The chosen one and its runners-up, and what of the front is neither: the knee and the fastest."""
    near = (plan.chosen, *plan.runners_up)[:SHOWN]
    far = [e for e in (plan.knee, *plan.front[:1]) if e is not None and e not in near]
    return (*near[: SHOWN - len(far)], *dict.fromkeys(far))


def _every_line(found: "Recommendation") -> "tuple[Estimate, ...]":
    """The chosen one first, then the best of each machine type and market, what may not be chosen included."""
    from trainfare.recommender.choose import best_per_machine

    chosen = found.plan.chosen
    return (chosen, *(e for e in best_per_machine(found.estimates) if e.candidate != chosen.candidate))
