"""`trainfare recommend`: time, cost and certainty on every machine, and the one to take."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainfare.cli.options import Boot, DataGib, DiskGib, IterationsPerEpoch, Json, ResultsGib, Setup, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainfare.app.recommend import Recommendation
    from trainfare.model.estimate import Estimate
    from trainfare.model.legs import Early
    from trainfare.model.plan import Goal, Plan, Target
    from trainfare.model.scope import Quota, Scope

SHOWN = 8
"""Lines of the table, unless all are asked for."""


def recommend(
    profile: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROFILE]...",
            help="Profiles of one program, one a machine; the newest when none is named.",
            show_default=False,
        ),
    ] = None,
    goal: Annotated[
        Literal["cheapest", "fastest"] | None,
        typer.Option(
            metavar="cheapest|fastest", help="What to look for; in a --budget the fastest.", show_default=False
        ),
    ] = None,
    weight_time: Annotated[
        float | None, typer.Option(metavar="W", help="Both: W of time and 1 − W of cost.", show_default=False)
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="It must end within: 3h, 90min, 2d.", show_default=False)
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="USD", help="It must not cost more.", show_default=False)
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="P", help="How surely the limits hold.")] = 0.9,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many epochs to train.", show_default=False)
    ] = None,
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
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=NAME",
            help="Of a provider, region, machine, gpu, or gpu-gib; or --only yours. Repeat it.",
            show_default=False,
        ),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="So many machines, or GPUs of a provider.", show_default=False),
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Spot machines may be chosen too.")] = False,
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
    from trainfare.app.recommend import recommend
    from trainfare.model.bill import Overheads
    from trainfare.settings import read_settings

    files = [require_drawable(path) for path in plot or ()]
    settings = read_settings({"store": store, "goal": goal, "boot_seconds": boot, "setup_seconds": setup})
    found = recommend(
        profile or (),
        goal=_goal(
            goal,
            settings.goal,
            weight_time=weight_time,
            deadline=deadline,
            budget=budget,
            confidence=confidence,
            target=target,
        ),
        scope=_scope(only or (), quota or (), batch or (), nodes=nodes, spot=spot, reserved=reserved),
        epochs=epochs,
        legs=legs,
        early=None if early is None else _early(early),
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


def _goal(
    asked: Literal["cheapest", "fastest"] | None,
    usual: Literal["cheapest", "fastest"],
    *,
    weight_time: float | None,
    deadline: str | None,
    budget: float | None,
    confidence: float,
    target: str | None,
) -> "Goal":
    """Within a budget alone it is the fastest, unless the user says otherwise."""
    from trainfare.errors import AskedWrongly
    from trainfare.model.plan import Goal

    if asked is not None and weight_time is not None:
        raise AskedWrongly("--goal and --weight-time both say what to look for: give one of them.")
    if weight_time is not None and not 0 <= weight_time <= 1:
        raise AskedWrongly(f"--weight-time goes from 0, the cheapest, to 1, the fastest; got {weight_time:g}.")
    if not 0 < confidence < 1:
        raise AskedWrongly(f"--confidence lies between 0 and 1, got {confidence:g}.")
    by_limit = "fastest" if budget is not None and deadline is None else usual
    return Goal(
        kind="weighted" if weight_time is not None else asked or by_limit,
        weight_time=weight_time,
        deadline_seconds=None if deadline is None else _duration("--deadline", deadline),
        budget_usd=_positive("--budget", budget),
        confidence=confidence,
        target=None if target is None else _target(target),
    )


def _scope(
    only: "Sequence[str]",
    quota: "Sequence[str]",
    batch: "Sequence[str]",
    *,
    nodes: int | None,
    spot: bool,
    reserved: bool | None,
) -> "Scope":
    from trainfare.errors import AskedWrongly, NotFound
    from trainfare.model.scope import Scope

    names: dict[str, list[str]] = {"provider": [], "region": [], "machine": [], "gpu": [], "gpu-gib": []}
    for word in only:
        what, equals, name = word.partition("=")
        if word != "yours" and what not in names:
            raise NotFound("kind of offers for --only,", what, (*names, "yours"))
        if word != "yours" and not name:
            raise AskedWrongly(f"--only {what} needs a name, as --only {what}=…")
        if equals:
            names[what].append(name)
    if nodes is not None and nodes < 1:
        raise AskedWrongly(f"--nodes must be at least 1, got {nodes}.")
    return Scope(
        providers=tuple(names["provider"]),
        regions=tuple(names["region"]),
        machines=tuple(names["machine"]),
        gpus=tuple(names["gpu"]),
        least_gpu_gib=max((_gib(text) for text in names["gpu-gib"]), default=None),
        yours="yours" in only,
        quota=tuple(_quota(word) for word in quota),
        nodes=nodes,
        batch_sizes=tuple(_batch_size(word) for word in batch if word != "any"),
        any_batch_size="any" in batch,
        spot=spot,
        reserved=reserved,
    )


def _gib(text: str) -> float:
    from trainfare.errors import AskedWrongly

    try:
        return _positive("--only gpu-gib", float(text)) or 0.0
    except ValueError:
        raise AskedWrongly(f"--only gpu-gib is a number of GiB, not {text}.") from None


def _duration(option: str, text: str) -> float:
    from trainfare.errors import AskedWrongly
    from trainfare.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise AskedWrongly(f"{option}: {error}.") from None


def _positive(option: str, number: float | None) -> float | None:
    from trainfare.errors import AskedWrongly

    if number is not None and not 0 < number < float("inf"):
        raise AskedWrongly(f"{option} must be a positive number, got {number:g}.")
    return number


def _target(text: str) -> "Target":
    from trainfare.errors import AskedWrongly
    from trainfare.model.plan import Target

    metric, _, value = text.partition("=")
    try:
        return Target(metric=metric, value=float(value))
    except ValueError:
        raise AskedWrongly(f"--target is a metric and its value, as accuracy=0.9, not {text}.") from None


def _early(text: str) -> "Early":
    from trainfare.errors import AskedWrongly
    from trainfare.model.legs import Early

    figure, at, time = text.partition("@")
    metric, _, value = figure.partition("=")
    try:
        return Early(metric=metric, value=float(value), seconds=_duration("--early", time) if at else None)
    except ValueError:
        raise AskedWrongly(f"--early is a metric, its value and by when, as loss=0.5@2h, not {text}.") from None


def _quota(text: str) -> "Quota":
    from trainfare.errors import AskedWrongly
    from trainfare.model.scope import Quota

    of, _, most = text.rpartition("=")
    try:
        return Quota(of=of, most=int(most))
    except ValueError:
        raise AskedWrongly(f"--quota is a name and a number, as A100=8 or aws/p3.2xlarge=2, not {text}.") from None


def _batch_size(text: str) -> int:
    from trainfare.errors import AskedWrongly

    if not text.isdecimal() or int(text) < 1:
        raise AskedWrongly(f"--batch is a whole number of samples, or any, not {text}.")
    return int(text)


def _worth_a_look(plan: "Plan") -> "tuple[Estimate, ...]":
    """The chosen one and its runners-up, and what of the front is neither: the knee and the fastest."""
    near = (plan.chosen, *plan.runners_up)[:SHOWN]
    far = [e for e in (plan.knee, *plan.front[:1]) if e is not None and e not in near]
    return (*near[: SHOWN - len(far)], *dict.fromkeys(far))


def _every_line(found: "Recommendation") -> "tuple[Estimate, ...]":
    """The chosen one first, then the best of each machine type and market, what may not be chosen included."""
    from trainfare.recommender.choose import one_a_machine

    chosen = found.plan.chosen
    return (chosen, *(e for e in one_a_machine(found.estimates) if e.candidate != chosen.candidate))
