"""`trainfare catalog`: machines and their prices, GPUs, commitments, and imports of price tables."""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from trainfare.app.catalog.commitments import list_commitments
from trainfare.app.catalog.import_prices import import_prices
from trainfare.app.catalog.offers import list_gpus, list_offers, show_gpu, show_machine
from trainfare.app.catalog.update_prices import TIMEOUT_SECONDS, Outcome, update_prices
from trainfare.cli.console import new_table, out, print_json, print_note
from trainfare.cli.options import Json
from trainfare.cli.parsing import parse_day
from trainfare.model.catalog import GpuDetails, OfferListing, OfferRow, PriceChange, PriceImport, UpdatedTable
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Commitment, Offer
from trainfare.units import format_age, format_change, format_count, format_usd, format_usd_per_hour, plural
from trainfare.views.catalog import (
    age_mark,
    age_sentence,
    commitment_record,
    failed_sentence,
    gpu_record,
    marketplace_sentence,
    offer_row_record,
    price_import_record,
    price_update_record,
    updated_sentence,
)

CHECKED = {"read": "read", "quoted": "quoted by others", "not opened": "not checked"}
"""Words for how a fact was checked against its source."""

app = typer.Typer(help="Machines and GPUs: list, show, update prices.", no_args_is_help=True)

CHANGES_SHOWN = 5
NAMES_SHOWN = 6
MARK_WIDTH = 2
WIDE = 100
"""Columns of a terminal that has room for the age of every price."""


@app.command("list")
def list_command(
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Such as aws, azure, gcp; own is yours.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="A100 is any A100, A100-80GB one variant.", show_default=False)
    ] = None,
    kind: Annotated[
        Literal["gpu", "cpu"] | None,
        typer.Option(help="Only machines with a GPU, or only those without.", show_default=False),
    ] = None,
    region: Annotated[
        str | None, typer.Option(metavar="NAME", help="As the provider names it.", show_default=False)
    ] = None,
    spot: Annotated[
        bool | None,
        typer.Option("--spot/--on-demand", help="Only spot prices, or only the others.", show_default=False),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="List past machines and prices instead.")] = False,
    sort: Annotated[
        Literal["price", "gpu-price", "gpu-memory", "age", "name"], typer.Option(help="Order of the list.")
    ] = "price",
    show_all: Annotated[bool, typer.Option("--all", help="Every region, not only the cheapest.")] = False,
    as_json: Json = False,
) -> None:
    """List rentable machines, each in its cheapest region."""

    listing = list_offers(
        provider=provider,
        gpu=gpu,
        kind=kind,
        region=region,
        spot=spot,
        past=history,
        sort=sort,
        every_region=show_all,
    )
    if as_json:
        print_json([offer_row_record(line, listing.today) for line in listing.rows])
        return
    if not listing.rows:
        print_note(
            "No past price matches."
            if history
            else "No machine that can be rented matches. --history lists past machines."
        )
        return
    out().print(_prices_table(listing.rows, listing.today, machine=True, spot=spot, source=history))
    if _is_narrow():
        print_note(_ages(listing))
    if not history:
        _print_marks(listing.rows, listing.today)
    print_note(_summary(listing, history=history))


@app.command("show")
def show_command(
    machine: Annotated[str, typer.Argument(metavar="MACHINE", help="aws/g5.xlarge, or g5.xlarge.")],
    as_json: Json = False,
) -> None:
    """Show one machine: its price in every region, and its GPU."""

    found = show_machine(machine)
    vm_type = found.vm_type
    committed = list_commitments(vm_type.key)
    if as_json:
        lines = [offer_row_record(line, found.today) for line in found.rows]
        gpu = gpu_record(vm_type.gpu) if vm_type.gpu else None
        commitments = [commitment_record(offer) for offer in committed]
        print_json({"machine": vm_type.key, "gpu": gpu, "prices": lines, "commitments": commitments})
        return

    out().print(Text.assemble((vm_type.key, "bold"), f"  {_hardware(vm_type)}"))
    if vm_type.gpu:
        out().print(Text(_gpu_sentence(vm_type.gpu)))
    now = [line for line in found.rows if not line.is_past(found.today)]
    past = [line for line in found.rows if line.is_past(found.today)]
    if now:
        out().print("")
        out().print(_prices_table(now, found.today, machine=False))
        _print_marks(now, found.today)
    if committed:
        out().print("")
        out().print(_commitments_table(committed, machine=False))
    if past:
        out().print(Text(f"\n{_past_title(past)}", style="dim"))
        out().print(_prices_table(past, found.today, machine=False, source=True))


@app.command("commitments")
def commitments_command(as_json: Json = False) -> None:
    """List your commitments, and when each pays off."""

    committed = list_commitments()
    if as_json:
        print_json([commitment_record(offer) for offer in committed])
    elif not committed:
        print_note(
            "There are no commitments. Add a [[commitment]] to machines.toml; `trainfare settings` shows its path."
        )
    else:
        out().print(_commitments_table(committed, machine=True))
        print_note("per hour: with the upfront payment spread over the term; pays off above: hours of use per month")


@app.command("gpus")
def gpus_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One GPU, with the source of each fact.")] = None,
    as_json: Json = False,
) -> None:
    """List GPUs; with a name, each fact and its source."""

    if name is None:
        gpus = list_gpus()
        if as_json:
            print_json([gpu_record(gpu) for gpu in gpus])
            return
        out().print(_gpus_table(gpus))
        print_note("fp32 to fp8: nominal peak in TFLOP/s, dense. Sources of one GPU: trainfare catalog gpus T4")
        return
    found = show_gpu(name)
    if as_json:
        print_json(gpu_record(found.gpu, found.facts))
        return
    _print_gpu(found)


@app.command("import")
def import_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="SkyPilot's vms.csv, or a catalog of gpuhunt.")],
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="The provider, if the file does not name it.", show_default=False)
    ] = None,
    format_: Annotated[
        Literal["skypilot", "gpuhunt"] | None,
        typer.Option("--format", help="Format of the file; by default detected.", show_default=False),
    ] = None,
    seen_on: Annotated[
        str | None, typer.Option(metavar="DAY", help="Day of the prices; by default of the file.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; save nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Import newer prices, and show what changed."""

    imported = import_prices(
        Path(file),
        provider=provider,
        format_=format_,
        seen_on=None if seen_on is None else parse_day("seen_on", seen_on),
        dry_run=dry_run,
    )
    if as_json:
        print_json(price_import_record(imported))
    else:
        _print_imported(imported)


@app.command("update")
def update_command(
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL|FILE", help="Another source than gpuhunt's catalog.", show_default=False),
    ] = None,
    provider: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this provider (repeatable).", show_default=False)
    ] = None,
    seen_on: Annotated[
        str | None, typer.Option(metavar="DAY", help="Day of the prices; by default of the table.", show_default=False)
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long a server may be silent.")
    ] = TIMEOUT_SECONDS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; save nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Renew the prices of all providers, and show what changed."""

    update = update_prices(
        source=source,
        providers=provider or (),
        seen_on=None if seen_on is None else parse_day("seen_on", seen_on),
        dry_run=dry_run,
        timeout_seconds=timeout,
        progress=None if as_json else _print_outcome,
    )
    if as_json:
        print_json(price_update_record(update))
        return
    if update.dry_run:
        print_note("dry run: nothing was saved")
    else:
        print_note("Other providers, machines and regions keep their last price. Undo: remove the file of a provider.")
        print_note(f"saved in {' '.join(path for done in update.updated for path in done.imported.saved)}")


def _print_outcome(outcome: Outcome) -> None:
    """Print a provider as soon as it is done: a slow server is seen to work."""
    if isinstance(outcome, UpdatedTable):
        out().print(Text(updated_sentence(outcome)))
    else:
        print_note(failed_sentence(outcome))


def _print_marks(rows: Sequence[OfferRow], today: date) -> None:
    for sentence in (age_sentence(rows, today), marketplace_sentence(rows)):
        if sentence:
            print_note(sentence)


def _prices_table(
    rows: Iterable[OfferRow], today: date, *, machine: bool, spot: bool | None = None, source: bool = False
) -> Table:
    with_age = not (machine and _is_narrow())
    with_price, with_spot = spot is not True, spot is not False
    table = _table()
    if machine:
        table.add_column("machine", overflow="fold")
        table.add_column("GPU", overflow="fold")
    table.add_column("region", overflow="fold")
    for name, is_shown in (("on demand", with_price), ("spot", with_spot)):
        if is_shown:
            table.add_column(name, justify="right", no_wrap=True)
    if with_age:
        table.add_column("price seen", no_wrap=True)
    if source:
        table.add_column("source", overflow="fold")
    for line in rows:
        cells = ((line.usd_per_hour, with_price), (line.spot_usd_per_hour, with_spot))
        mark = None if source else age_mark(line, today)
        table.add_row(
            *([Text(line.vm_type.key), Text(_gpus(line.vm_type))] if machine else []),
            Text(line.region),
            *(_price(usd, mark) for usd, is_shown in cells if is_shown),
            *([format_age(line.seen_on, today)] if with_age else []),
            *([Text(line.source)] if source else []),
        )
    return table


def _commitments_table(committed: Iterable[Offer], *, machine: bool) -> Table:
    table = _table()
    for name in (*(("machine",) if machine else ()), "region"):
        table.add_column(name, overflow="fold")
    for name in ("months", "upfront", "per hour", "on demand", "pays off above"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for offer in committed:
        if (commitment := offer.commitment) is not None:
            table.add_row(
                *([Text(offer.vm_type.key)] if machine else []),
                Text(offer.region),
                str(commitment.months),
                format_usd(commitment.upfront_usd) if commitment.upfront_usd else "–",
                format_usd_per_hour(commitment.effective_usd_per_hour),
                format_usd_per_hour(commitment.on_demand_usd_per_hour) if commitment.on_demand_usd_per_hour else "–",
                _pays_off(commitment),
                "held" if commitment.held else "to buy",
            )
    return table


def _pays_off(commitment: Commitment) -> str:
    hours = commitment.break_even_hours
    if hours is None:
        return "–"
    return f"{format_count(round(hours))} h" if hours < commitment.hours / commitment.months else "never"


def _table() -> Table:
    return new_table(gap=1 if _is_narrow() else 2)


def _is_narrow() -> bool:
    """True if there is no room for the age of each price; then ages are printed below the list."""
    return out().width < WIDE


def _ages(listing: OfferListing) -> str:
    """The age of each provider's prices: `aws, gcp 2 months old · azure 14 months old`."""
    providers: dict[str, list[str]] = {}
    for line in sorted(listing.rows, key=lambda line: line.seen_on, reverse=True):
        named = providers.setdefault(format_age(line.seen_on, listing.today), [])
        if line.vm_type.provider not in named:
            named.append(line.vm_type.provider)
    return "prices seen: " + " · ".join(f"{', '.join(named)} {age}" for age, named in providers.items())


def _summary(listing: OfferListing, *, history: bool) -> str:
    machines = plural(listing.machines, "machine")
    more = plural(listing.regions_hidden, "more price") + " in other regions (--all)"
    hidden = f"; {more}" if listing.regions_hidden else ""
    if history:
        return f"{machines} that can no longer be rented at these prices{hidden}"
    return f"{machines}{hidden}. Details: trainfare catalog show {listing.rows[0].vm_type.key}"


def _past_title(past: Sequence[OfferRow]) -> str:
    """The title of past prices. A price of a document ends on the day it was seen; a later end is the provider's."""
    ends = [row.retired_on for row in past if row.retired_on and row.retired_on != row.seen_on]
    return f"retired on {max(ends)}; past prices:" if ends else "past prices:"


def _price(usd: float | None, mark: str | None) -> str:
    """A price or a dash, with room for a mark of its age, so that all digits stand below each other; None: no room."""
    text = "–" if usd is None else format_usd_per_hour(usd)
    return text if mark is None else text + (mark if usd is not None else "").ljust(MARK_WIDTH)


def _gpus(vm_type: VmType) -> str:
    if vm_type.gpu is None:
        return f"– ({vm_type.cpu.name})" if vm_type.cpu else "–"
    return vm_type.gpu.name if vm_type.gpus == 1 else f"{vm_type.gpus} × {vm_type.gpu.name}"


def _hardware(vm_type: VmType) -> str:
    parts = [f"{vm_type.gpus} × {vm_type.gpu.name}" if vm_type.gpu else "no GPU"]
    if vm_type.vcpus is not None:
        parts.append(f"{vm_type.vcpus:g} vCPUs")
    if vm_type.memory_gib is not None:
        parts.append(f"{vm_type.memory_gib:g} GiB")
    if vm_type.cpu is not None:
        parts.append(vm_type.cpu.name)
    return " · ".join(parts)


def _gpu_sentence(gpu: Gpu) -> str:
    tensor = gpu.fp16_tensor_tflops or gpu.bf16_tensor_tflops
    half = f", {tensor:g} TFLOP/s in 16 bits on tensor cores" if tensor else ""
    return (
        f"{gpu.name}: {gpu.memory_gib:g} GiB at {gpu.memory_gb_per_second:g} GB/s · {gpu.fp32_tflops:g} TFLOP/s in"
        f" float32{half} · {gpu.interconnect}, {gpu.interconnect_gb_per_second:g} GB/s · {gpu.architecture},"
        f" {gpu.launch_year}"
    )


def _gpus_table(gpus: Sequence[Gpu]) -> Table:
    table = _table()
    table.add_column("GPU", no_wrap=True)
    for name in ("year", "GiB", "GB/s", "fp32", "tf32", "fp16", "bf16", "fp8", "link GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for gpu in gpus:
        peaks = (
            gpu.fp32_tflops,
            gpu.tf32_tensor_tflops,
            gpu.fp16_tensor_tflops or gpu.fp16_tflops,
            gpu.bf16_tensor_tflops,
            gpu.fp8_tensor_tflops,
        )
        figures = (gpu.memory_gib, gpu.memory_gb_per_second, *peaks, gpu.interconnect_gb_per_second)
        table.add_row(gpu.name, str(gpu.launch_year), *("–" if f is None else f"{f:.4g}" for f in figures))
    return table


def _print_gpu(found: GpuDetails) -> None:
    out().print(Text(found.gpu.name, style="bold"))
    table = _table()
    table.add_column("fact", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("source", justify="right", no_wrap=True)
    sources = list(dict.fromkeys(figure.source for figure in found.facts))
    for figure in found.facts:
        table.add_row(figure.fact, figure.value, f"[dim]{sources.index(figure.source) + 1}[/dim]")
    if not sources:
        for fact, value in gpu_record(found.gpu).items():
            if value is not None and fact != "name":
                table.add_row(fact, str(value), "yours")
    out().print(table)
    for number, source in enumerate(sources, start=1):
        out().print(
            Text(
                f"{number}  {source.publisher}: {source.title}, {source.date} ({CHECKED[source.checked]})", style="dim"
            )
        )


def _print_imported(imported: PriceImport) -> None:
    table = imported.table
    machines = len({offer.vm_type.key for offer in table.offers})
    providers = ", ".join(imported.providers)
    out().print(
        Text.assemble(
            (f"{providers}: {plural(len(table.offers), 'price')} of {plural(machines, 'machine')}", "bold"),
            f", seen on {imported.seen_on} ({imported.format})",
        )
    )
    changed = [
        ("new", imported.new),
        ("cheaper", imported.cheaper),
        ("more expensive", imported.more_expensive),
        ("no longer listed", imported.gone),
    ]
    counts = [f"{format_count(len(changes))} {name}" for name, changes in changed if changes]
    out().print(", ".join([*counts, f"{format_count(imported.unchanged)} unchanged"]))
    biggest = sorted((*imported.cheaper, *imported.more_expensive), key=_size, reverse=True)[:CHANGES_SHOWN]
    if biggest:
        out().print(_changes_table(biggest))
    for sentence in _left_out(imported):
        print_note(sentence)
    saved = " ".join(imported.saved)
    print_note(f"saved in {saved}" if saved else "dry run: nothing was saved")


def _size(change: PriceChange) -> float:
    """The size of a change; half and double the price are equally large."""
    return max(change.ratio, 1 / change.ratio)


def _changes_table(changes: Iterable[PriceChange]) -> Table:
    table = _table()
    for name in ("machine", "region", "market"):
        table.add_column(name, overflow="fold")
    for name in ("before", "now", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for change in changes:
        prices = (format_usd_per_hour(change.before or 0), format_usd_per_hour(change.after or 0))
        names = (change.machine, change.region, change.market.replace("_", " "))
        table.add_row(*(Text(name) for name in names), *prices, format_change(change.ratio - 1))
    return table


def _left_out(imported: PriceImport) -> Iterable[str]:
    table = imported.table
    if table.without_gpu:
        yield f"left out: {plural(table.without_gpu, 'row')} without a GPU, of machines that the catalog does not list"
    if table.without_price:
        yield f"left out: {plural(table.without_price, 'row')} whose price is blank, zero or not a number"
    if table.without_host:
        yield f"left out: {plural(table.without_host, 'row')} of a GPU in a zone that has no machine for it"
    if table.unknown_gpus:
        names = [f"{name} ({count})" for name, count in list(table.unknown_gpus.items())[:NAMES_SHOWN]]
        more = len(table.unknown_gpus) - len(names)
        rows = plural(sum(table.unknown_gpus.values()), "row")
        rest = f" and {more} more" if more else ""
        yield f"left out: {rows} with an unknown GPU: {', '.join(names)}{rest}"
    if imported.gone:
        yield "machines and regions that this table does not list keep their last price"
