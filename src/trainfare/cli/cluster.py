"""`trainfare cluster`: how many workers behind a parameter server, and of which type."""

from typing import TYPE_CHECKING, Annotated

import typer

from trainfare.cli.options import IterationsPerEpoch, Json, Store

if TYPE_CHECKING:
    from rich.table import Table

    from trainfare.app.recommending.cluster import ClusterAdvice
    from trainfare.model.cluster import Algorithm, Rated

WIDE = 130
"""Columns of a terminal that has room for everything."""
WORD = 12


def cluster(
    algorithm: Annotated[
        str,
        typer.Option(
            metavar="ALGORITHM", help="cost-opt, time-opt, scala-opt, or scala-opt-m for one type of your choice."
        ),
    ] = "scala-opt",
    worker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MACHINE[=USD]",
            help="A type that may be a worker; its price an hour where the catalog has none. Repeat it.",
            show_default=False,
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MACHINE[=USD]",
            help="The parameter server; of several, the one with the largest network is taken.",
            show_default=False,
        ),
    ] = None,
    server_mbps: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MACHINE=]MBPS", help="Megabits a second that the server's network takes.", show_default=False
        ),
    ] = None,
    mbps_per_worker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MACHINE=]MBPS",
            help="What one worker sends, measured with one worker and the server.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Tells what a worker sends, and predicts time and cost: FC2's choices and ours side by side.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="To predict, with --profile.", show_default=False)
    ] = None,
    iterations_per_epoch: IterationsPerEpoch = None,
    budget_per_hour: Annotated[
        float | None, typer.Option(metavar="USD", help="For the server and all workers.", show_default=False)
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Instead of a budget, or with it.", show_default=False)
    ] = None,
    fill: Annotated[
        float, typer.Option(metavar="P", help="The part of the server's network that may be filled.")
    ] = 0.95,
    json: Json = False,
    store: Store = None,
) -> None:
    """How many workers behind a parameter server, of which type."""
    from trainfare.app.recommending.cluster import cluster_record, recommend_cluster
    from trainfare.settings import read_settings

    workers = _prices(worker or ())
    advice = recommend_cluster(
        workers,
        _prices(server or ()),
        _numbers("--server-mbps", server_mbps or ()),
        algorithm=_algorithm(algorithm),
        usd_per_hour=budget_per_hour,
        max_workers=max_workers,
        worker_mbps=_of_each("--mbps-per-worker", mbps_per_worker or (), workers),
        profile_ids=profile or (),
        epochs=epochs,
        iterations_per_epoch=iterations_per_epoch,
        fill=fill,
        settings=read_settings({"store": store}),
    )
    if json:
        from trainfare.cli.console import print_json

        print_json(cluster_record(advice))
        return
    _print(advice)


def _algorithm(name: str) -> "Algorithm":
    from trainfare.errors import NotFoundError
    from trainfare.model.cluster import ALGORITHMS

    for known in ALGORITHMS:
        if known == name.lower():
            return known
    raise NotFoundError("algorithm", name, ALGORITHMS, listed_by="trainfare cluster --help")


def _prices(flags: "list[str] | tuple[()]") -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for flag in flags:
        name, equals, price = flag.rpartition("=")
        found[name if equals else flag] = _number("the price in", flag, price) if equals else None
    return found


def _numbers(option: str, flags: "list[str] | tuple[()]") -> dict[str, float]:
    """By machine; one without a machine stands under "" and holds for all."""
    return {name: _number(option, flag, number) for flag in flags for name, _, number in [flag.rpartition("=")]}


def _of_each(option: str, flags: "list[str] | tuple[()]", workers: dict[str, float | None]) -> dict[str, float]:
    numbers = _numbers(option, flags)
    for_all = numbers.pop("", None)
    return ({} if for_all is None else dict.fromkeys(workers, for_all)) | numbers


def _number(what: str, flag: str, text: str) -> float:
    from trainfare.errors import UsageError

    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{what} {flag} must be a positive number.")
    return number


def _print(advice: "ClusterAdvice") -> None:
    from rich.text import Text

    from trainfare.cli.console import out, print_points
    from trainfare.units import format_usd

    found = advice.cluster
    out().print(
        Text.assemble(
            "Take  ",
            (f"{found.workers} × {found.worker.name}", "bold green"),
            f"  behind  {found.server.name}:  ",
            (f"{format_usd(found.usd_per_hour)} an hour", "bold"),
        )
    )
    out().print()
    print_points(advice.reasons)
    out().print()
    out().print(_types(advice))
    if advice.rated:
        out().print()
        out().print(f"By predicted time and cost of {advice.epochs} epochs:")
        out().print()
        out().print(_side_by_side(advice.rated))
    if advice.remarks:
        out().print()
        print_points(advice.remarks)


def _types(advice: "ClusterAdvice") -> "Table":
    found = advice.cluster
    table = _table("", "worker", "price", "sends", "network fits", "budget fits", words=2)
    for each in found.considered:
        chosen = each.worker == found.worker
        table.add_row(
            "✔" if chosen else "·",
            each.worker.name,
            f"{each.worker.usd_per_hour:.4g} $/h",
            "–" if each.worker.mbps is None else f"{each.worker.mbps:.4g} Mbps",
            "–" if each.by_network is None else str(each.by_network),
            "–" if each.by_budget is None else str(each.by_budget),
            style="bold green" if chosen else None,
        )
    return table


def _side_by_side(rated: "tuple[Rated, ...]") -> "Table":
    from trainfare.cli.console import out
    from trainfare.recommender.clusters.own import OURS, cluster_words
    from trainfare.units import format_duration, format_usd

    wide = out().width >= WIDE
    more = ("90 % of cost", "vs cheapest", "vs fastest") if wide else ()
    table = _table("", "cluster", "$/h", "time", "cost", *more, "vs as fast", words=2)
    for each in rated:
        trained = each.trained
        cells = [
            f"{format_usd(trained.usd.low).removesuffix(' $')} – {format_usd(trained.usd.high)}" if trained else "–",
            _above(each.over_cheapest),
            _above(each.over_fastest),
        ]
        table.add_row(
            each.by,
            cluster_words(each),
            f"{each.usd_per_hour:.4g}",
            format_duration(trained.seconds.value) if trained else "–",
            format_usd(trained.usd.value) if trained else "–",
            *(cells if wide else ()),
            _above(each.over_as_fast),
            style="bold green" if each.by.startswith(OURS) else None,
        )
    return table


def _above(share: float | None) -> str:
    """+38 %, and from twice as much on × 2.1."""
    if share is None:
        return "–"
    return f"+{100 * share:.0f} %" if share < 1 else f"× {1 + share:.3g}"


def _table(*columns: str, words: int) -> "Table":
    """The first columns hold words, the others numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for i, name in enumerate(columns):
        if i < words:
            table.add_column(name, overflow="fold", min_width=WORD if name else None)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
