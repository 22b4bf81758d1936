"""Prints a plan: the answer first, then the reasons, then the table."""

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from trainfare.cli.arguments import spell_arguments
from trainfare.cli.cards.bill import answer, machines, spread
from trainfare.cli.console import new_table, out, print_topics
from trainfare.model.estimate import Estimate
from trainfare.model.offer import OLD_PRICE_DAYS
from trainfare.model.plan import Plan
from trainfare.model.reason import Topic
from trainfare.recommender.names import machine_name
from trainfare.units import format_age, format_duration, format_usd, format_usd_per_hour
from trainfare.views.reasons import sentence
from trainfare.views.split import segment_epochs
from trainfare.views.summary import plan_summary

TOPICS: dict[Topic, str] = {
    "why": "why",
    "certainty": "certainty",
    "changes": "what if",
    "charges": "charges",
    "assumptions": "assumptions",
}
"""The heading of each topic of reasons."""
WIDE = 130
"""Columns of a terminal that has room for memory and region."""
OPTIONAL = ("memory", "region", "basis", "90% interval", "GPU", "price", "nodes", "batch")
"""Columns that a narrow terminal leaves out, in this order; machine, time and cost always stay."""
NUMBERS = ("nodes", "batch", "time", "cost", "90% interval")
FOR_WHOLE_NAMES = ("memory", "region", "basis", "90% interval")
"""Columns that are left out before a machine's name is folded below `WHOLE_NAME`; the others, below `LEAST_NAME`."""
WHOLE_NAME = 34
LEAST_NAME = 12
GAP = 2


def print_plan(plan: Plan, lines: Sequence[Estimate], *, explain: bool = True, notes: Sequence[str] = ()) -> None:
    """`lines` are the estimates to show in the table, `notes` what to say under it. Without `explain` the reasons are
    one line each for why, how sure and what would change it."""

    for line in _answer(plan):
        out().print(Text.assemble(*line), soft_wrap=False)
    out().print()
    if explain:
        said = [(TOPICS[reason.topic], sentence(reason, spell_arguments)) for reason in plan.reasons]
    else:
        said = plan_summary(plan, spell_arguments)
    print_topics([heading for heading, _ in said], [line for _, line in said])
    out().print()
    out().print(_table(plan, lines))
    marks = ["✔ chosen", *(["● on the Pareto front"] if any(_mark(plan, e) == "●" for e in lines) else [])]
    if plan.knee is not None and plan.knee in lines:
        marks.append("◆ its knee")
    if plan.other_batch_size is not None and plan.other_batch_size in lines:
        marks.append("? its epochs are a guess")
    out().print(" · ".join((*marks, *notes)), style="dim", soft_wrap=False)


def _answer(plan: Plan) -> Iterator[list[str | tuple[str, str]]]:
    if plan.chosen.candidate.offer.is_here:
        yield [("Train here", "bold green"), *_at_batch(plan), ":  ", *spread(plan.chosen.seconds, plan.chosen.usd)]
        return
    if plan.split is None:
        yield ["Train on  ", *answer(plan.chosen)]
        if plan.spot_risk is not None:
            backed = plan.spot_risk.with_fallback
            yield [
                "to meet the deadline it falls back to on demand when spot is not available; its mean cost is then  ",
                (format_usd(backed.usd), "bold"),
            ]
        return
    first, second = plan.split.segments
    yield [f"Train  {segment_epochs(first)} on  ", *machines(first.estimate)]
    yield [f"then   {segment_epochs(second)} on  ", *machines(second.estimate)]
    yield ["total  ", *spread(plan.split.seconds, plan.split.usd)]


def _at_batch(plan: Plan) -> list[str | tuple[str, str]]:
    """The batch size of the machine at hand, if other sizes are listed too."""
    size = plan.chosen.candidate.batch_size
    others = {each.candidate.batch_size for each in plan.runners_up}
    return [f" at batch size {size}"] if size and others - {size} else []


def _table(plan: Plan, lines: Sequence[Estimate]) -> Table:
    columns = _columns(plan, lines, wide=out().width >= WIDE)
    for name in OPTIONAL:
        if _width(columns, names=WHOLE_NAME if name in FOR_WHOLE_NAMES else LEAST_NAME) > out().width:
            columns.pop(name, None)
    table = new_table(gap=GAP)
    for name in columns:
        if name == "machine":
            table.add_column(name, overflow="fold", min_width=LEAST_NAME)
        else:
            table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    for estimate, *cells in zip(lines, *columns.values(), strict=True):
        table.add_row(*cells, style="bold green" if estimate == plan.chosen else None)
    return table


def _columns(plan: Plan, lines: Sequence[Estimate], *, wide: bool) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {
        "": [_mark(plan, e) for e in lines],
        "machine": [machine_name(e.candidate.offer) for e in lines],
        "GPU": [_gpus(e) for e in lines],
        "nodes": [str(e.candidate.nodes) for e in lines],
        "batch": [str(e.candidate.batch_size or "–") for e in lines],
        "time": [format_duration(e.seconds.value) for e in lines],
        "cost": [format_usd(e.usd.value) for e in lines],
        "90% interval": [f"{format_usd(e.usd.low)} – {format_usd(e.usd.high)}" if e.usd.high else "–" for e in lines],
        "basis": [e.basis for e in lines],
        "price": [_price(plan, e) for e in lines],
    }
    if not any(e.candidate.nodes > 1 for e in lines):
        del columns["nodes"]
    if len(set(columns["batch"])) < 2:
        del columns["batch"]
    return columns | (_wide_columns(lines) if wide else {})


def _width(columns: Mapping[str, Sequence[str]], *, names: int) -> int:
    """The width of the table when machine names are folded to `names` columns."""
    widths = {name: max(len(text) for text in (name, *cells)) for name, cells in columns.items()}
    return sum(min(width, names if name == "machine" else width) + GAP for name, width in widths.items()) - GAP


def _mark(plan: Plan, estimate: Estimate) -> str:
    if estimate == plan.chosen:
        return "✔"
    if estimate.fits is False:
        return "✘"
    if estimate == plan.other_batch_size:
        return "?"
    if estimate == plan.knee:
        return "◆"
    return "●" if estimate in plan.front else "·"


def _gpus(estimate: Estimate) -> str:
    """GPUs per machine: `4 × T4`; `1 of 8 × A100` if the rest is idle."""
    candidate, vm_type = estimate.candidate, estimate.candidate.offer.vm_type
    if vm_type.gpu is None:
        return "–"
    used = "" if candidate.working_gpus_per_node == vm_type.gpus else f"{candidate.working_gpus_per_node} of "
    return f"{used}{vm_type.gpus} × {vm_type.gpu.name}"


def _wide_columns(lines: Sequence[Estimate]) -> dict[str, list[str]]:
    fits = [e.memory for e in lines]
    return {
        "memory": [f"{m.needed_gib.value:.2g} of {m.available_gib:.3g} GiB" if m else "not known" for m in fits],
        "region": [e.candidate.offer.region for e in lines],
    }


def _price(plan: Plan, estimate: Estimate) -> str:
    """The price of an hour of all nodes, with its age if it is so old that it may have changed."""
    offer, today = estimate.candidate.offer, plan.made_at.date()
    if not offer.usd_per_hour:
        return "–"
    price = format_usd_per_hour(estimate.candidate.usd_per_hour)
    if offer.market == "own" or offer.age_days(today) <= OLD_PRICE_DAYS:
        return price
    return f"{price} ({format_age(offer.seen_on, today)})"
