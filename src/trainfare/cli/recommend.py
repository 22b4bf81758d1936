"""`trainfare recommend`: the answer first, the reasons second, the table third."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from trainfare.app.recommend import Recommendation
    from trainfare.model.estimate import Estimate

SHOWN = 8
"""Lines of the table, unless all are asked for."""
WIDE = 130
"""Columns of a terminal that has room for memory, region and price."""


def recommend(
    profile: Annotated[
        list[str] | None,
        typer.Argument(
            help="Profiles of one program, one a machine; the newest when none is named.", show_default=False
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="How many epochs to train.", show_default=False)] = None,
    goal: Annotated[
        Literal["cheapest", "fastest"] | None, typer.Option(help="What to have least of.", show_default="cheapest")
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Spot machines may be chosen too.")] = False,
    iterations_per_epoch: Annotated[
        int | None, typer.Option(min=1, help="Where the program does not tell.", show_default=False)
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show every machine type.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, every estimate in it.")] = False,
    store: Annotated[str | None, typer.Option(help="Another history.", show_default=False)] = None,
) -> None:
    """Which machine to train on: time, cost and certainty on every machine that can be rented."""
    from trainfare.app.recommend import recommend
    from trainfare.cli.console import out, print_json
    from trainfare.settings import read_settings

    found = recommend(
        profile or (),
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        spot=spot,
        settings=read_settings({"store": store, "goal": goal}),
    )
    if as_json:
        from trainfare.app.records import recommendation_record

        print_json(recommendation_record(found))
        return
    lines = _every_line(found) if show_all else (found.plan.chosen, *found.plan.runners_up)[:SHOWN]
    _print_answer(found)
    out().print(_table(found, lines))
    _print_footer(found, lines)


def _print_answer(found: "Recommendation") -> None:
    from rich.text import Text

    from trainfare.cli.console import out, print_points
    from trainfare.units import format_seconds, format_usd

    chosen = found.plan.chosen
    vm_type, offer = chosen.candidate.offer.vm_type, chosen.candidate.offer
    hardware = f"{vm_type.gpus} × {vm_type.gpu.name}" if vm_type.gpu else "no GPU"
    out().print(
        Text.assemble(
            "Train on  ",
            (f"{vm_type.provider} {vm_type.name}", "bold green"),
            f"  ({hardware}, {offer.market.replace('_', ' ')}, {offer.region}):  ",
            (f"{format_seconds(chosen.seconds.value)},  {format_usd(chosen.usd.value)}", "bold"),
            f"  (90 %: {format_seconds(chosen.seconds.low)} – {format_seconds(chosen.seconds.high)}, "
            f"{format_usd(chosen.usd.low)} – {format_usd(chosen.usd.high)})",
        ),
        soft_wrap=False,
    )
    out().print()
    print_points(found.plan.reasons)
    out().print()


def _every_line(found: "Recommendation") -> "tuple[Estimate, ...]":
    """The chosen one first, then the best of each machine type and market, what may not be chosen included."""
    from trainfare.recommender.choose import one_a_machine

    chosen = found.plan.chosen
    return (chosen, *(e for e in one_a_machine(found.estimates) if e != chosen))


def _table(found: "Recommendation", lines: "Sequence[Estimate]") -> "Table":
    from rich.table import Table

    from trainfare.cli.console import out

    wide = out().width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("machine", overflow="fold", min_width=12)
    table.add_column("GPU", no_wrap=True)
    for name in ("time", "cost", "90 % of cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("basis", *(("memory", "region", "price", "seen") if wide else ())):
        table.add_column(name, no_wrap=True)
    for estimate in lines:
        chosen = estimate == found.plan.chosen
        table.add_row(*_cells(found, estimate, wide=wide), style="bold green" if chosen else None)
    return table


def _cells(found: "Recommendation", estimate: "Estimate", *, wide: bool) -> list[str]:
    from trainfare.recommender.explain import machine_words
    from trainfare.units import format_age, format_seconds, format_usd

    offer, memory = estimate.candidate.offer, estimate.memory
    gpu = offer.vm_type.gpu
    cells = [
        "✔" if estimate == found.plan.chosen else "✘" if estimate.fits is False else "·",
        machine_words(offer),
        f"{offer.vm_type.gpus} × {gpu.name}" if gpu else "–",
        format_seconds(estimate.seconds.value),
        format_usd(estimate.usd.value),
        f"{format_usd(estimate.usd.low).removesuffix(' $')} – {format_usd(estimate.usd.high)}",
        estimate.basis,
    ]
    if wide:
        needed = f"{memory.needed_gib.value:.2g} of {memory.available_gib:.3g} GiB" if memory else "not known"
        age = format_age(offer.seen_on, found.plan.made_at.date())
        cells += [needed, offer.region, f"{estimate.candidate.usd_per_hour:.4g} $/h", age]
    return cells


def _print_footer(found: "Recommendation", lines: "Sequence[Estimate]") -> None:
    from trainfare.cli.console import out
    from trainfare.units import format_age

    today = found.plan.made_at.date()
    days = sorted({e.candidate.offer.seen_on for e in lines})
    seen = " to ".join(f"{day} ({format_age(day, today)})" for day in dict.fromkeys((days[0], days[-1])))
    more = len(_every_line(found)) - len(lines)
    parts = (
        "✔ chosen",
        f"prices seen {seen}",
        f"plan {found.plan.id} kept",
        *([f"{more} more: --all"] if more else []),
    )
    out().print(" · ".join(parts), style="dim", soft_wrap=False)
