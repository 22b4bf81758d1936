"""`trainfare recommend`: time, cost and certainty on every machine, and the one to take."""

from typing import Annotated, Literal

import typer

from trainfare.app.figures import require_drawable
from trainfare.app.recommending.recommend import Recommendation
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.plan import print_plan
from trainfare.cli.console import print_json
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import (
    Boot,
    Budget,
    DataGib,
    Deadline,
    DiskGib,
    Exclude,
    GoalKind,
    Json,
    Only,
    Plot,
    ResultsGib,
    Setup,
    Spot,
    Store,
    WeightTime,
)
from trainfare.cli.parsing import parse_early_target, parse_goal, parse_scope
from trainfare.cli.use_cases import RemoteRecommendation, refuse_on_server
from trainfare.cli.use_cases import recommend as ask_to_recommend
from trainfare.errors import UsageError
from trainfare.model.bill import Overheads
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.recommender.pareto import MAX_COST_RATIO, fastest_within
from trainfare.settings import read_settings
from trainfare.store.server import is_server
from trainfare.units import format_count
from trainfare.views.recommendation import recommendation_record

SHOWN = 8
"""Lines of the table without --all."""


@expand_options
def recommend(
    *,
    profile: Annotated[list[str] | None, typer.Argument(metavar="PROFILE", hidden=True)] = None,
    goal: GoalKind = None,
    weight_time: WeightTime = None,
    deadline: Deadline = None,
    budget: Budget = None,
    value_of_time: Annotated[
        str | None,
        typer.Option(metavar="USD/h", help="Cheapest with your time at this price: 30/h.", show_default=False),
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="P", help="Confidence of these limits.")] = 0.9,
    length: LengthOptions,
    target: Annotated[
        str | None,
        typer.Option(metavar="METRIC=VALUE", help="Train until reached: accuracy=0.9.", show_default=False),
    ] = None,
    batch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="B|any",
            help="Effective batch size (repeatable), or `any`.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of machines (1; 8 for DDP).", show_default=False),
    ] = None,
    only: Only = None,
    exclude: Exclude = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N",
            help="At most N machines or GPUs (repeatable).",
            show_default=False,
        ),
    ] = None,
    spot: Spot = False,
    reserved: Annotated[
        bool | None,
        typer.Option(
            "--reserved/--no-reserved",
            help="Consider commitments to buy too; or none.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="Consider two machines, one after the other.")] = False,
    early: Annotated[
        str | None,
        typer.Option(metavar="METRIC=VALUE[@TIME]", help="A value needed earlier: loss=0.5@2h.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="Compare with this machine.", show_default=False)
    ] = None,
    plot: Plot = None,
    view: Annotated[
        Literal["fare", "epochs", "batches", "all"],
        typer.Option(metavar="VIEW", help="fare, epochs, batches or all."),
    ] = "fare",
    boot: Boot = None,
    setup: Setup = None,
    disk_gib: DiskGib = None,
    data_gib: DataGib = None,
    results_gib: ResultsGib = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say all reasons, charges and assumptions.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show every machine, or candidate (--json).")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Recommend a machine for the newest profile, or for PROFILEs of one program."""

    files = [require_drawable(path) for path in plot or ()]
    if view != "fare" and not files:
        raise UsageError("says what a figure shows, so it needs --plot FILE.", field="view")
    settings = read_settings({"store": store, "goal": goal, "boot_seconds": boot, "setup_seconds": setup})
    at_home = {
        "early": None if early is None else parse_early_target(early),
        "overheads": Overheads(disk_gib=disk_gib, data_gib=data_gib, results_gib=results_gib),
    }
    refuse_on_server(
        settings,
        plot=plot,
        early=early,
        boot=boot,
        setup=setup,
        disk_gib=disk_gib,
        data_gib=data_gib,
        results_gib=results_gib,
    )
    found = ask_to_recommend(
        profile or (),
        goal=parse_goal(
            goal,
            settings.goal,
            weight_time=weight_time,
            deadline=deadline,
            budget=budget,
            value_of_time=value_of_time,
            confidence=confidence,
            target=target,
        ),
        scope=parse_scope(
            only or (), quota or (), batch or (), exclude=exclude or (), nodes=nodes, spot=spot, reserved=reserved
        ),
        **length.keywords,
        split=split,
        baseline=baseline,
        **({} if is_server(settings.store) else at_home),
        settings=settings,
    )
    if files and not isinstance(found, RemoteRecommendation):
        figure = found.figure(view)
        for path in files:
            figure.save(path)
    if json:
        print_json(
            recommendation_record(
                found.plan,
                found.profiles,
                found.estimates if show_all else found.machines,
                spell=spell_arguments,
            )
        )
        return

    every = _every_line(found)
    lines = every if show_all else _notable(found.plan)
    more = [f"{format_count(len(every) - len(lines))} more: --all"] if len(every) > len(lines) else []
    more += [] if explain else ["all reasons: --explain"]
    notes = [f"plan {found.plan.id} stored", *more, *(f"drawn: {path}" for path in files)]
    print_plan(found.plan, lines, explain=explain, notes=notes)


def _notable(plan: Plan) -> tuple[Estimate, ...]:
    """The chosen estimate, the machine at hand and the runners-up, with the knee of the Pareto front, its fastest point
    that is not out of all proportion, and another batch size that may be better."""
    first = (plan.chosen, *((plan.here,) if plan.here and plan.here != plan.chosen else ()))
    near = dict.fromkeys((*first, *plan.runners_up))
    cheapest = next((e.usd.value for e in near if e.usd.value), 0.0)
    fastest = fastest_within(plan.front, MAX_COST_RATIO * (plan.chosen.usd.value or cheapest))
    shown = tuple(near)[:SHOWN]
    far = [e for e in dict.fromkeys((plan.knee, fastest, plan.other_batch_size)) if e is not None and e not in shown]
    return (*shown[: SHOWN - len(far)], *far)


def _every_line(found: Recommendation | RemoteRecommendation) -> tuple[Estimate, ...]:
    """The chosen estimate, then the best of each machine type and market, also those that are not eligible."""

    chosen = found.plan.chosen
    return (chosen, *(e for e in found.machines if e.candidate != chosen.candidate))
