"""`trainfare cluster`: how many workers behind a parameter server, and of which type."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from trainfare.app.recommending.cluster import recommend_cluster
from trainfare.cli.arguments import spell_arguments
from trainfare.cli.console import new_table, out, print_json, print_note, print_points
from trainfare.cli.length_options import LengthOptions
from trainfare.cli.option_groups import expand_options
from trainfare.cli.options import Json, Store
from trainfare.cli.parsing import parse_launcher, require_positive
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.cluster import ALGORITHMS, Algorithm, ClusterAdvice, RatedCluster
from trainfare.settings import Settings, read_settings
from trainfare.units import (
    format_change,
    format_duration,
    format_number,
    format_ratio,
    format_usd,
    format_usd_per_hour,
)
from trainfare.views.cluster_record import cluster_record, measured_cluster_record
from trainfare.views.clusters import cluster_name
from trainfare.views.reasons import sentence

if TYPE_CHECKING:
    from trainfare.app.running.measure_cluster import ClusterMeasurement

WIDE = 130
"""Columns of a terminal that has room for everything."""
WORD = 12
MOST_WORKERS = 16
"""Workers that are considered after a measurement without a limit."""
UNPRICED_USD_PER_HOUR = 1.0
"""The price of a node that costs nothing: clusters are compared by prices, and here all nodes have the same."""


@expand_options
def cluster(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="The program to measure.", show_default=False),
    ] = None,
    *,
    measure: Annotated[bool, typer.Option("--measure", help="Run the program, with 1 to N workers.")] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="MACHINE", help="Measure on this group of hosts.", show_default=False),
    ] = None,
    launcher: Annotated[str, typer.Option(metavar="NAME", help="How nodes find each other.")] = "tf-server",
    seconds: Annotated[float, typer.Option(metavar="S", help="Measure each for so long.")] = 60.0,
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
            help="A worker type; with its hourly price if the catalog has none (repeatable).",
            show_default=False,
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MACHINE[=USD]",
            help="The parameter server; of several, the one with the fastest network.",
            show_default=False,
        ),
    ] = None,
    server_mbps: Annotated[
        list[str] | None,
        typer.Option(metavar="[MACHINE=]MBPS", help="The server's network, in Mbit/s.", show_default=False),
    ] = None,
    mbps_per_worker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MACHINE=]MBPS",
            help="What one worker sends, measured with one worker, in Mbit/s.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Predict time and cost from these profiles; compare FC2's choices with ours.",
            show_default=False,
        ),
    ] = None,
    length: LengthOptions,
    budget_per_hour: Annotated[
        float | None,
        typer.Option(metavar="USD", help="Hourly budget for all of them.", show_default=False),
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum number of workers.", show_default=False)
    ] = None,
    fill: Annotated[float, typer.Option(metavar="P", help="Share of the server's network that may be used.")] = 0.95,
    json: Json = False,
    store: Store = None,
) -> None:
    """Choose the workers of a parameter server: how many, of which type."""

    settings = read_settings({"store": store})
    workers, servers = _prices("workers", worker or ()), _prices("servers", server or ())
    bandwidths, traffic = _numbers("server_mbps", server_mbps or ()), _of_each(mbps_per_worker or (), workers)
    measured = _measure(command, on, launcher, max_workers, seconds, settings) if measure else None
    if measured is not None:
        price = measured.usd_per_hour or UNPRICED_USD_PER_HOUR
        if not measured.usd_per_hour:
            print_note(f"note: {measured.machine} costs nothing; it is counted as {format_usd_per_hour(price)}")
        workers, servers = workers or {measured.machine: price}, servers or {measured.machine: price}
        bandwidths = bandwidths or {"": measured.link_mbps}
        traffic = traffic or dict.fromkeys(workers, measured.tried[0].worker_mbps)
        max_workers = max_workers or (None if budget_per_hour else MOST_WORKERS)
    elif command or on:
        raise UsageError("A program and a machine are only needed to measure.", field="measure")
    advice = recommend_cluster(
        workers,
        servers,
        bandwidths,
        algorithm=_algorithm(algorithm),
        usd_per_hour=budget_per_hour,
        max_workers=max_workers,
        worker_mbps=traffic,
        profile_ids=profile or (),
        **length.keywords,
        fill=fill,
        settings=settings,
    )
    if json:
        print_json(cluster_record(advice) | ({"measured": measured_cluster_record(measured)} if measured else {}))
        return
    if measured is not None:
        out().print(_measured_table(measured))
        out().print()
    _print(advice)


def _measure(
    command: Sequence[str] | None,
    on: str | None,
    launcher: str,
    max_workers: int | None,
    seconds: float,
    settings: Settings,
) -> "ClusterMeasurement":
    from trainfare.app.running.measure_cluster import measure_cluster  # doors and runs, which the question alone spares

    if not command or on is None:
        raise UsageError("A program and a machine with several nodes are needed to measure.", field="on")
    return measure_cluster(
        command,
        on=on,
        workers=range(1, (max_workers or 1) + 1),
        launcher=parse_launcher(launcher),
        seconds=require_positive("seconds", seconds),
        settings=settings,
        on_progress=lambda text: print_note(f"measures {text}"),
    )


def _measured_table(measured: "ClusterMeasurement") -> Table:
    """The steps of each number of workers, and those that the run with one worker predicts."""
    out().print(
        f"{measured.machine}: the network carries {format_number(measured.link_mbps)} Mbit/s from one node to another"
    )
    out().print()
    predicted = {each.workers: each for each in measured.predicted}
    table = _table("workers", "iteration", "if synchronous", "if asynchronous", "a worker", "the server", words=0)
    for each in measured.tried:
        by_one = predicted.get(each.workers)
        table.add_row(
            str(each.workers),
            "–" if each.step_seconds is None else format_duration(each.step_seconds),
            "–" if by_one is None else format_duration(by_one.synchronous_seconds),
            "–" if by_one is None else format_duration(by_one.asynchronous_seconds),
            f"{each.worker_mbps:.4g} Mbps",
            f"{each.server_mbps:.4g} Mbps",
        )
    return table


def _algorithm(name: str) -> Algorithm:
    for known in ALGORITHMS:
        if known == name.lower():
            return known
    raise NotFoundError("algorithm", name, ALGORITHMS, listed_by="trainfare cluster --help", field="algorithm")


def _prices(field: str, words: Sequence[str]) -> dict[str, float | None]:
    """The hourly price of each machine, or None where the catalog is to have it."""
    found: dict[str, float | None] = {}
    for word in words:
        name, equals, price = word.rpartition("=")
        found[name if equals else word] = _number(field, price) if equals else None
    return found


def _numbers(field: str, words: Sequence[str]) -> dict[str, float]:
    """Numbers by machine; the key "" holds the one given without a machine, which applies to all."""
    return {name: _number(field, number) for word in words for name, _, number in [word.rpartition("=")]}


def _of_each(words: Sequence[str], workers: Iterable[str]) -> dict[str, float]:
    """The traffic of each worker; a number without a machine is that of all workers."""
    numbers = _numbers("worker_mbps", words)
    for_all = numbers.pop("", None)
    return ({} if for_all is None else dict.fromkeys(workers, for_all)) | numbers


def _number(field: str, text: str) -> float:
    try:
        return require_positive(field, float(text))
    except ValueError:
        raise UsageError(f"takes a positive number, not {text!r}.", field=field) from None


def _print(advice: ClusterAdvice) -> None:
    found = advice.cluster
    out().print(
        Text.assemble(
            "Take  ",
            (f"{found.workers} × {found.worker.name}", "bold green"),
            f"  behind  {found.server.name}:  ",
            (format_usd_per_hour(found.usd_per_hour), "bold"),
        )
    )
    out().print()
    print_points([sentence(reason, spell_arguments) for reason in advice.reasons])
    out().print()
    out().print(_types(advice))
    if advice.rated:
        out().print()
        out().print(f"By predicted time and cost of {advice.epochs} epochs:")
        out().print()
        out().print(_side_by_side(advice.rated))
    if advice.remarks:
        out().print()
        print_points([sentence(remark, spell_arguments) for remark in advice.remarks])


def _types(advice: ClusterAdvice) -> Table:
    found = advice.cluster
    table = _table("", "worker", "price", "sends", "network fits", "budget fits", words=2)
    for each in found.considered:
        chosen = each.worker == found.worker
        table.add_row(
            "✔" if chosen else "·",
            each.worker.name,
            format_usd_per_hour(each.worker.usd_per_hour),
            "–" if each.worker.mbps is None else f"{each.worker.mbps:.4g} Mbps",
            "–" if each.by_network is None else str(each.by_network),
            "–" if each.by_budget is None else str(each.by_budget),
            style="bold green" if chosen else None,
        )
    return table


def _side_by_side(rated: tuple[RatedCluster, ...]) -> Table:
    wide = out().width >= WIDE
    more = ("90% interval", "vs cheapest", "vs fastest") if wide else ()
    table = _table("", "cluster", "price", "time", "cost", *more, "vs equally fast", words=2)
    for each in rated:
        estimate = each.estimate
        cells = [
            f"{format_usd(estimate.usd.low)} – {format_usd(estimate.usd.high)}" if estimate else "–",
            _above(each.cost_over_cheapest),
            _above(each.time_over_fastest),
        ]
        table.add_row(
            each.by,
            cluster_name(each),
            format_usd_per_hour(each.usd_per_hour),
            format_duration(estimate.seconds.value) if estimate else "–",
            format_usd(estimate.usd.value) if estimate else "–",
            *(cells if wide else ()),
            _above(each.cost_over_as_fast),
            style="bold green" if each.is_ours else None,
        )
    return table


def _above(share: float | None) -> str:
    """The excess as `+38.2%`, and from twice as much on as `2.1x`."""
    if share is None:
        return "–"
    return format_change(share) if share < 1 else format_ratio(1 + share)


def _table(*columns: str, words: int) -> Table:
    """A table whose first `words` columns hold words and the others numbers."""

    table = new_table()
    for i, name in enumerate(columns):
        if i < words:
            table.add_column(name, overflow="fold", min_width=WORD if name else None)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
