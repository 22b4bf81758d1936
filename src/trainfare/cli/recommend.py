"""`trainfare recommend`: time, cost and certainty on every machine, and the one to take."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trainfare.cli.options import Boot, DataGib, DiskGib, IterationsPerEpoch, Json, ResultsGib, Setup, Store

if TYPE_CHECKING:
    from trainfare.app.recommend import Recommendation
    from trainfare.model.estimate import Estimate

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
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many epochs to train.", show_default=False)
    ] = None,
    goal: Annotated[
        Literal["cheapest", "fastest"] | None,
        typer.Option(metavar="cheapest|fastest", help="What to look for.", show_default="cheapest"),
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Spot machines may be chosen too.")] = False,
    reserved: Annotated[
        bool | None,
        typer.Option(
            "--reserved/--no-reserved",
            help="Commitments that you would have to buy may be chosen too; or not even those you hold.",
            show_default="those you hold",
        ),
    ] = None,
    iterations_per_epoch: IterationsPerEpoch = None,
    boot: Boot = None,
    setup: Setup = None,
    disk_gib: DiskGib = None,
    data_gib: DataGib = None,
    results_gib: ResultsGib = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show every machine type.")] = False,
    json: Json = False,
    store: Store = None,
) -> None:
    """Which machine to train on: how long, how much, how sure."""
    from trainfare.app.recommend import recommend
    from trainfare.model.bill import Overheads
    from trainfare.settings import read_settings

    found = recommend(
        profile or (),
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        spot=spot,
        reserved=reserved,
        overheads=Overheads(disk_gib=disk_gib, data_gib=data_gib, results_gib=results_gib),
        settings=read_settings({"store": store, "goal": goal, "boot_seconds": boot, "setup_seconds": setup}),
    )
    if json:
        from trainfare.app.records import recommendation_record
        from trainfare.cli.console import print_json

        print_json(recommendation_record(found))
        return
    from trainfare.cli.plan_card import print_plan

    every = _every_line(found)
    lines = every if show_all else (found.plan.chosen, *found.plan.runners_up)[:SHOWN]
    more = [f"{len(every) - len(lines)} more: --all"] if len(every) > len(lines) else []
    print_plan(found.plan, lines, notes=[f"plan {found.plan.id} kept", *more])


def _every_line(found: "Recommendation") -> "tuple[Estimate, ...]":
    """The chosen one first, then the best of each machine type and market, what may not be chosen included."""
    from trainfare.recommender.choose import one_a_machine

    chosen = found.plan.chosen
    return (chosen, *(e for e in one_a_machine(found.estimates) if e != chosen))
