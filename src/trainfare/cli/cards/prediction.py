"""Prints a prediction: the answer, what it is made of, other batch sizes, more GPUs."""

import math

from rich.table import Table
from rich.text import Text

from trainfare.cli.console import new_table, out, print_points
from trainfare.model.prediction import Prediction, PredictionReport
from trainfare.recommender.names import short_name
from trainfare.units import format_count, format_duration, format_number, format_percent, format_ratio
from trainfare.views.explain.why import bottleneck

SMALL_SHARE = 0.01
"""Parts with a smaller share are shown in one line."""


def print_prediction(found: PredictionReport) -> None:
    out().print(Text.assemble(*answer(found.prediction)), soft_wrap=False)
    out().print()
    print_points([*limit_sentences(found.prediction), *found.remarks, *batch_sentences(found)])
    for table in (parts_table(found.prediction), batches_table(found), clusters_table(found), served_table(found)):
        if table is not None:
            out().print()
            out().print(table)


def answer(prediction: Prediction) -> list[str | tuple[str, str]]:
    """`aws p3.2xlarge  (1 × V100, batch 64):  12 ms per iteration  (90%: 9.8 ms – 15 ms),  5,200 samples/s`."""
    vm_type, seconds = prediction.vm_type, prediction.iteration_seconds
    several = f"{prediction.nodes} × " if prediction.nodes > 1 else ""
    hardware = f"{prediction.gpus} × {vm_type.gpu.name}" if vm_type.gpu else "no GPU"
    batch = f", batch {prediction.batch_size}" if prediction.batch_size else ""
    rate, tokens = prediction.samples_per_second, prediction.tokens_per_second
    return [
        (f"{several}{short_name(vm_type.provider, vm_type.name)}", "bold green"),
        f"  ({hardware}{batch}):  ",
        (f"{format_duration(seconds.value)} per iteration", "bold"),
        f"  (90%: {format_duration(seconds.low)} – {format_duration(seconds.high)})"
        + (f",  {_rate(rate.value)} samples/s" if rate else "")
        + (f",  {_rate(tokens)} tokens/s" if tokens else ""),
    ]


def limit_sentences(prediction: Prediction) -> list[str]:
    limit, gpus = prediction.limited_by, prediction.gpus if prediction.vm_type.gpu else 0
    return [f"limited by {bottleneck(limit, gpus)}"] if limit else []


def parts_table(prediction: Prediction) -> Table | None:
    if not prediction.parts:
        return None
    table = _table("part", "time", "share", "limited by")
    total = sum(part.seconds for part in prediction.parts)
    small = 0.0
    for part in sorted(prediction.parts, key=lambda part: -part.seconds):
        if part.seconds < SMALL_SHARE * total:
            small += part.seconds
            continue
        table.add_row(
            part.name, format_duration(part.seconds), format_percent(round(part.seconds / total, 2)), part.limited_by
        )
    if small:
        table.add_row("the rest", format_duration(small), format_percent(round(small / total, 2)), "")
    return table


def batches_table(found: PredictionReport) -> Table | None:
    if len(found.batches) < 2:
        return None
    table = _table("batch size", "time", "90% interval", "samples/s", "memory", "")
    for one in found.batches:
        remarks = []
        if one.batch_size == found.prediction.batch_size:
            remarks.append("requested")
        table.add_row(*_cells(str(one.batch_size), one), _memory(one), ", ".join(remarks))
    return table


def batch_sentences(found: PredictionReport) -> list[str]:
    """Sentences about the batch size from which a larger one gains little, and the largest that fits."""
    words = []
    on_gpu = found.prediction.gpus > 0
    per_gpu, memory = (" per GPU", "one GPU's memory") if on_gpu else ("", "its memory")
    most = found.profiles[0].samples or math.inf
    if found.saturation_batch and 1 <= found.saturation_batch <= most:
        words.append(
            f"above {format_count(round(found.saturation_batch))} samples{per_gpu}, a larger batch gains less than 10%"
        )
    elif found.saturation_batch and found.saturation_batch > most:
        words.append("a larger batch is faster per sample, up to the size of the data set")
    largest = found.largest_batch
    if largest is not None and largest.fits >= most:
        words.append(f"every batch that the data set allows fits in {memory}")
    elif largest is not None and largest.fits:
        perhaps = f", perhaps {format_count(largest.at_most)}" if largest.at_most > largest.fits else ""
        words.append(f"the largest batch that fits in {memory} is {format_count(largest.fits)}{perhaps}")
    return words


def clusters_table(found: PredictionReport) -> Table | None:
    if len(found.strong) < 2:
        return None
    columns = ("same total batch", "90% interval", "samples/s", "gain", "same batch per GPU", "samples/s", "gain")
    table = _table("GPUs", *columns)
    first = found.strong[0].samples_per_second
    weak = {(one.nodes, one.gpus): one for one in found.weak}
    for one in found.strong:
        name = f"{one.gpus}" if one.nodes == 1 else f"{one.nodes} × {one.gpus}"
        row = [*_cells(name, one), _gain(one, first.value if first else None)]
        other = weak.get((one.nodes, one.gpus))
        if other is not None:
            time, _, rate = _cells("", other)[1:]
            row += [time, rate, _gain(other, first.value if first else None)]
        table.add_row(*row)
    return table


def served_table(found: PredictionReport) -> Table | None:
    """Step times of synchronous and asynchronous workers behind a parameter server."""
    if not found.served:
        return None
    table = _table("workers behind the server", "synchronous", "samples/s", "asynchronous", "samples/s", "server")
    batch = found.prediction.batch_size or 1
    for one in found.served:
        in_step, apart = one.synchronous, one.asynchronous
        table.add_row(
            str(one.workers),
            format_duration(in_step),
            _rate(one.workers * batch / in_step),
            format_duration(apart),
            _rate(one.workers * batch / apart),
            "saturated" if one.saturated else "",
        )
    return table


def _cells(name: str, one: Prediction) -> list[str]:
    seconds, rate = one.iteration_seconds, one.samples_per_second
    return [
        name,
        format_duration(seconds.value),
        f"{format_duration(seconds.low)} – {format_duration(seconds.high)}",
        _rate(rate.value) if rate else "",
    ]


def _rate(per_second: float) -> str:
    return format_number(per_second)


def _gain(one: Prediction, first: float | None) -> str:
    rate = one.samples_per_second
    return format_ratio(rate.value / first) if rate and first else ""


def _memory(one: Prediction) -> str:
    return "" if one.memory is None else f"{one.memory.needed_gib.value:.2g} GiB, {one.memory.verdict}"


def _table(first: str, *others: str) -> Table:
    table = new_table()
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name in ("limited by", "memory", "") else "right", no_wrap=True)
    return table
