"""Prints an estimate: the answer first, then remarks, then the bill."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from trainfare.cli.console import new_table, out, print_points
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.units import format_count, format_duration, format_usd

UNSEEN_USD = 1e-4
"""A smaller rounding is in the sum, but has no line of its own."""


def print_estimate(estimate: Estimate, remarks: Sequence[str], *, explain: bool) -> None:
    out().print(Text.assemble(*answer(estimate)), soft_wrap=False)
    out().print()
    print_points(remarks)
    out().print()
    out().print(bill_table(estimate, explain=explain))
    if not explain:
        out().print("--explain shows the formula of every line", style="dim")


def answer(estimate: Estimate) -> list[str | tuple[str, str]]:
    """`aws g4dn.xlarge (1 × T4, on demand, us-east-1): 28 min, $0.24 (90%: …)`."""
    return [*machines(estimate), ":  ", *spread(estimate.seconds, estimate.usd)]


def machines(estimate: Estimate) -> list[str | tuple[str, str]]:
    candidate, offer = estimate.candidate, estimate.candidate.offer
    vm_type, gpu = offer.vm_type, offer.vm_type.gpu
    hardware = f"{vm_type.gpus} × {gpu.name}" if gpu else "no GPU"
    if offer.is_here:
        batch = f", batch {candidate.batch_size}" if candidate.batch_size else ""
        return [("here", "bold green"), f"  ({hardware}{batch}, this machine)"]
    several = f"{candidate.nodes} × " if candidate.nodes > 1 else ""
    batch = f", batch {candidate.batch_size}" if candidate.batch_size else ""
    return [
        (f"{several}{vm_type.provider} {vm_type.name}", "bold green"),
        f"  ({hardware}{batch}, {offer.market.replace('_', ' ')}, {offer.region})",
    ]


def spread(seconds: Interval, usd: Interval) -> list[str | tuple[str, str]]:
    return [
        (f"{format_duration(seconds.value)},  {format_usd(usd.value)}", "bold"),
        f"  (90%: {format_duration(seconds.low)} – {format_duration(seconds.high)}{_usd_range(usd)})",
    ]


def _usd_range(usd: Interval) -> str:
    """The interval of the cost; nothing if it is free."""
    return f", {format_usd(usd.low)} – {format_usd(usd.high)}" if usd.high else ""


def bill_table(estimate: Estimate, *, explain: bool) -> Table:
    """One row per line of the bill; a line that takes no time has only a cost."""

    table = new_table()
    table.add_column("")
    for name in ("time", "90% interval", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    if explain:
        table.add_column("how", overflow="fold")
    seconds = {phase.name: phase.seconds for phase in estimate.phases}
    for line in estimate.bill.lines if estimate.bill else ():
        if line.name == "rounding" and line.usd.value < UNSEEN_USD:
            continue
        taken = next((its for name, its in seconds.items() if name == line.name), None)
        cells = [
            line.name,
            format_duration(taken.value) if taken else "",
            f"{format_duration(taken.low)} – {format_duration(taken.high)}" if taken and taken.low < taken.high else "",
            format_usd(line.usd.value),
        ]
        table.add_row(*cells, *([line.how] if explain else []))
    table.add_row(
        "total",
        format_duration(estimate.seconds.value),
        f"{format_duration(estimate.seconds.low)} – {format_duration(estimate.seconds.high)}",
        format_usd(estimate.usd.value),
        *([_total_explanation(estimate)] if explain else []),
        style="bold",
    )
    return table


def _total_explanation(estimate: Estimate) -> str:
    bill = estimate.bill
    if bill is None:
        return ""
    epochs = estimate.epochs_interval
    allowed = ""
    if epochs is not None:
        limits = f"{format_count(round(epochs.low))} – {format_count(round(epochs.high))}"
        allowed = f"; {limits} epochs are in the interval"
    charged = f"{format_duration(bill.billed_seconds)} charged, {bill.billing.description}"
    return f"{charged}, at prices of {bill.prices_seen_on}{allowed}"
