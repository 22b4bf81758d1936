"""`trainfare cluster`: how many workers behind a parameter server, and of which type."""

from typing import TYPE_CHECKING, Annotated

import typer

from trainfare.cli.options import Json, Store

if TYPE_CHECKING:
    from trainfare.app.cluster import ClusterAdvice
    from trainfare.model.cluster import Algorithm


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
        typer.Option(metavar="ID", help="A profile taken on a worker: tells what that type sends.", show_default=False),
    ] = None,
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
    from trainfare.app.cluster import cluster_record, recommend_cluster
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
        fill=fill,
        settings=read_settings({"store": store}),
    )
    if json:
        from trainfare.cli.console import print_json

        print_json(cluster_record(advice))
        return
    _print(advice)


def _algorithm(name: str) -> "Algorithm":
    from trainfare.errors import NotFound
    from trainfare.model.cluster import ALGORITHMS

    for known in ALGORITHMS:
        if known == name.lower():
            return known
    raise NotFound("algorithm", name, ALGORITHMS, listed_by="trainfare cluster --help")


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
    from trainfare.errors import AskedWrongly

    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise AskedWrongly(f"{what} {flag} must be a positive number.")
    return number


def _print(advice: "ClusterAdvice") -> None:
    from rich.table import Table
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
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("worker", overflow="fold")
    for name in ("price", "sends", "network fits", "budget fits"):
        table.add_column(name, justify="right", no_wrap=True)
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
    out().print(table)
