"""A plan as a person reads it: the answer first, the reasons second, the table third."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainfare.cli.bill_card import answer, machines, spread
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.recommender.explain import machine_words
from trainfare.units import format_age, format_seconds, format_usd

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 130
"""Columns of a terminal that has room for memory, region and price."""


def print_plan(plan: Plan, lines: Sequence[Estimate], *, notes: Sequence[str] = ()) -> None:
    """`lines` are the estimates to show in the table, `notes` what to say under it."""
    from rich.text import Text

    from trainfare.cli.console import out, print_points, print_topics

    for line in _answer(plan):
        out().print(Text.assemble(*line), soft_wrap=False)
    out().print()
    if plan.topics:
        print_topics(plan.topics, plan.reasons)
    else:
        print_points(plan.reasons)
    out().print()
    out().print(_table(plan, lines))
    marks = ["✔ chosen", *(["● on the Pareto front"] if any(_mark(plan, e) == "●" for e in lines) else [])]
    if plan.knee is not None and plan.knee in lines:
        marks.append("◆ its knee")
    out().print(" · ".join((*marks, _prices_seen(plan, lines), *notes)), style="dim", soft_wrap=False)


def _answer(plan: Plan) -> Iterator[list[str | tuple[str, str]]]:
    if plan.legs is None:
        yield ["Train on  ", *answer(plan.chosen)]
        if plan.spot_risk is not None:
            backed = plan.spot_risk.with_fallback
            yield [
                "to be in time it goes over to on demand where spot stays away, and then costs  ",
                (f"{format_usd(backed.usd)} on the mean", "bold"),
            ]
        return
    first, second = plan.legs.legs
    yield [f"Train  epochs 1 – {first.last_epoch} on  ", *machines(first.estimate)]
    yield [f"then   epochs {second.first_epoch} – {second.last_epoch} on  ", *machines(second.estimate)]
    yield ["in all  ", *spread(plan.legs.seconds, plan.legs.usd)]


def _table(plan: Plan, lines: Sequence[Estimate]) -> "Table":
    from rich.table import Table

    from trainfare.cli.console import out

    wide = out().width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("machine", overflow="fold", min_width=12)
    table.add_column("GPU", no_wrap=True)
    several_nodes = any(estimate.candidate.nodes > 1 for estimate in lines)
    several_sizes = len({estimate.candidate.batch_size for estimate in lines}) > 1
    for name in (*(("nodes",) if several_nodes else ()), *(("batch",) if several_sizes else ())):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("time", "cost", "90 % of cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("basis", *(("memory", "region", "price", "seen") if wide else ())):
        table.add_column(name, no_wrap=True)
    for estimate in lines:
        cells = _cells(plan, estimate) + (_wide_cells(plan, estimate) if wide else [])
        cells[3:3] = [
            *([str(estimate.candidate.nodes)] if several_nodes else []),
            *([str(estimate.candidate.batch_size or "–")] if several_sizes else []),
        ]
        table.add_row(*cells, style="bold green" if estimate == plan.chosen else None)
    return table


def _mark(plan: Plan, estimate: Estimate) -> str:
    if estimate == plan.chosen:
        return "✔"
    if estimate.fits is False:
        return "✘"
    if estimate == plan.knee:
        return "◆"
    return "●" if estimate in plan.front else "·"


def _gpus(estimate: Estimate) -> str:
    """`4 × T4` of each machine; `1 of 8 × A100` where the rest is idle."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    if vm_type.gpu is None:
        return "–"
    used = "" if candidate.gpus_working == vm_type.gpus else f"{candidate.gpus_working} of "
    return f"{used}{vm_type.gpus} × {vm_type.gpu.name}"


def _cells(plan: Plan, estimate: Estimate) -> list[str]:
    return [
        _mark(plan, estimate),
        machine_words(estimate.candidate.offer),
        _gpus(estimate),
        format_seconds(estimate.seconds.value),
        format_usd(estimate.usd.value),
        f"{format_usd(estimate.usd.low).removesuffix(' $')} – {format_usd(estimate.usd.high)}",
        estimate.basis,
    ]


def _wide_cells(plan: Plan, estimate: Estimate) -> list[str]:
    offer, memory = estimate.candidate.offer, estimate.memory
    return [
        f"{memory.needed_gib.value:.2g} of {memory.available_gib:.3g} GiB" if memory else "not known",
        offer.region,
        f"{estimate.candidate.usd_per_hour:.4g} $/h",
        format_age(offer.seen_on, plan.made_at.date()),
    ]


def _prices_seen(plan: Plan, lines: Sequence[Estimate]) -> str:
    days = sorted({estimate.candidate.offer.seen_on for estimate in lines})
    ends = dict.fromkeys((days[0], days[-1]))
    return "prices seen " + " to ".join(f"{day} ({format_age(day, plan.made_at.date())})" for day in ends)
