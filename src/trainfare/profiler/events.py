"""Turns the events of the probe into a Profile. Pure functions.

The time of an iteration is its span without the windows (validations) and checkpoints in it. The windows between two
iterations are one validation. If several processes train, the events of the one with most iterations are used.
"""

import binascii
import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import msgspec

from trainfare.model.machine import Host
from trainfare.model.profile import EarlyStopping, Ending, Epoch, MemoryMoment, Operation, Profile
from trainfare.model.program import Program
from trainfare.profiler.length import read_length, settle_length

Event = dict[str, Any]
Span = tuple[float, float]

_FRAMEWORKS = {"torch": "pytorch"}
_DEVICES = ("cpu", "cuda", "mps", "xpu", "tpu")
_ITERATION_FIELDS = ("start", "end", "wait", "batches", "learning_rate")
_MIN_SECONDS = 1e-9
"""The resolution of the clock: an iteration is never shorter."""
MIN_VALIDATIONS = 3
"""Validations after the same number of iterations that are taken to mark epochs; two may be a coincidence."""


def parse_events(text: bytes) -> list[Event]:
    """The events, one per line. Incomplete lines, as after a kill, and foreign lines are dropped."""
    events = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            continue
        if event["event"] == "iterations":
            events += _unpack_iterations(event)
        elif event["event"] == "losses":
            events.append({**event, "values": _unpack_doubles(event)})
        else:
            events.append(event)
    return events


def _unpack_iterations(event: Event) -> list[Event]:
    """One event per iteration: the probe writes several iterations in one event to be fast."""
    numbers = _unpack_doubles(event)
    rows = [numbers[at : at + len(_ITERATION_FIELDS)] for at in range(0, len(numbers), len(_ITERATION_FIELDS))]
    return [
        {"event": "iteration", "pid": event["pid"], "n": n, **dict(zip(_ITERATION_FIELDS, row, strict=True))}
        for n, row in enumerate(rows, start=event["first"])
    ]


def _unpack_doubles(event: Event) -> list[float | None]:
    """The numbers, packed as doubles in base64; None for those that are not finite."""
    doubles = array("d", binascii.a2b_base64(event["packed"]))
    return [double if math.isfinite(double) else None for double in doubles]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSummary:
    """The observations of the probe in all processes, which explains why there is no profile."""

    inside_python: bool
    frameworks: tuple[str, ...]
    troubles: tuple[str, ...]


def summarize_events(events: Iterable[Event]) -> ProbeSummary:
    events = list(events)
    return ProbeSummary(
        inside_python=any(event["event"] == "python" for event in events),
        frameworks=tuple(dict.fromkeys(event["name"] for event in events if event["event"] == "import")),
        troubles=tuple(
            f"{event['where']}: {event['what'].strip().splitlines()[-1]}"
            for event in events
            if event["event"] == "trouble"
        ),
    )


def leading_process_events(events: Sequence[Event]) -> list[Event]:
    """The events of the process with most iterations, of several the one of least rank; all events if there is no
    iteration."""
    counts = Counter(event["pid"] for event in events if event["event"] == "iteration")
    if not counts:
        return list(events)
    ranks = {event["pid"]: event.get("rank") or 0 for event in events if event["event"] == "model"}
    leader = max(counts, key=lambda pid: (counts[pid], -ranks.get(pid, 0)))
    return [event for event in events if event["pid"] == leader]


def gpu_from_events(events: Iterable[Event]) -> tuple[str | None, int]:
    """Name and number of the GPUs as the framework reported them."""
    model = _last_event(events, "model")
    return model.get("gpu"), model.get("gpus") or 0


def rank_from_events(events: Iterable[Event]) -> int:
    """The rank of this process among those that train together; 0 if it trains alone."""
    return _last_event(events, "model").get("rank") or 0


def build_profile(
    events: Sequence[Event],
    *,
    id: str,  # noqa: A002 # the field of the noun
    program: Program,
    host: Host,
    measured_at: datetime,
    ending: Ending,
    started: float,
) -> Profile:
    """The Profile of one run, which needs at least one iteration.

    `started` is the moment at which the program was started, on the clock of the events.
    """
    # A forked child inherits what its parent has imported.
    imports = [event for event in (*events, *leading_process_events(events)) if event["event"] == "import"]
    events = leading_process_events(events)
    iterations = sorted((event for event in events if event["event"] == "iteration"), key=lambda e: e["n"])
    spans = [(event["start"], event["end"]) for event in iterations]
    traced_numbers = {event["n"] for event in events if event["event"] == "traced"}
    untraced = [position for position, event in enumerate(iterations) if event["n"] not in traced_numbers]
    traces = [(event["start"], event["end"]) for event in iterations if event["n"] in traced_numbers]
    checkpoints = merge_spans(_spans(events, "checkpoint"))
    windows = subtract_spans(merge_spans(_spans(events, "window")), checkpoints)
    interruptions = merge_spans([*windows, *checkpoints])
    model, memory, traced = (_last_event(events, kind) for kind in ("model", "memory", "operations"))
    operator_times = _last_event(events, "operator_times")
    batches = [int(event["batches"]) for event in iterations]
    operations = read_operations(traced)
    finished = ending == "finished"
    epoch, sources = read_length(events, batches, len(iterations), finished=finished)
    if not epoch.get("iterations_per_epoch"):
        _add_observed_length(events, spans, epoch, sources)
    losses = _losses(events, len(iterations), epoch.get("accumulation_steps") or 1)
    waits = _last_event(events, "loader").get("waits", True)
    settle_length(epoch, len(iterations), finished=finished)
    length = epoch.get("iterations_per_epoch")
    return Profile(
        id=id,
        program=program,
        host=host,
        measured_at=measured_at,
        ending=ending,
        **_framework(model, imports),
        device=model["device"] if model.get("device") in _DEVICES else None,
        dtype=computing_dtype(operations, model.get("device")) or model.get("dtype"),
        world_size=model.get("world_size") or 1,
        **epoch,
        validation_samples=_last_event(events, "validation").get("samples") or None,
        parameters=model.get("parameters") or None,
        frozen_parameters=model.get("frozen_parameters"),
        weight_bytes=model.get("weight_bytes"),
        weight_copy_bytes=traced.get("weight_copy_bytes"),
        gradient_bytes=model.get("gradient_bytes"),
        optimizer=model.get("optimizer"),
        optimizer_bytes=model.get("optimizer_bytes"),
        optimizer_foreach=model.get("foreach"),
        zero_stage=model.get("zero_stage") or 0,
        gradient_noise=_last_event(events, "gradient_noise").get("value"),
        activation_bytes=traced.get("activation_bytes"),
        memory_moments=tuple(
            MemoryMoment(fixed_bytes=fixed, growing_bytes=growing) for fixed, growing in traced.get("moments") or ()
        ),
        peak_host_bytes=memory.get("host_bytes"),
        peak_device_bytes=memory.get("device_bytes"),
        init_seconds=max(0.0, spans[0][0] - started),
        iteration_seconds=_select(untraced, iteration_seconds(spans, interruptions)),
        data_wait_seconds=_select(untraced, [event["wait"] for event in iterations]) if any(batches) and waits else (),
        validation_seconds=seconds_by_position(spans, windows),
        checkpoint_seconds=seconds_by_position(spans, checkpoints),
        loss=_select(untraced, losses) if losses else (),
        learning_rate=_select(untraced, learning_rates(events, iterations)),
        cpu_use=cpu_use(events),
        cpu_queue_share=cpu_queue_share(events),
        threads=model.get("threads") or None,
        loader_workers=_last_event(events, "loader").get("workers"),
        loader_cpu_seconds=loader_cpu_seconds(events),
        curve=add_reported_metrics(
            count_epochs(spans, interruptions, losses, length, traces=traces, program_finished=finished), events
        ),
        **_schedule(events, epoch.get("epochs")),
        sources=sources,
        **bytes_per_iteration(events),
        versions=_last_event(events, "versions").get("versions") or {},
        compile_seconds=_last_event(events, "compilation").get("seconds"),
        compile_cache_warm=_last_event(events, "compilation").get("cache_warm"),
        operations=operations,
        operator_seconds=operator_times.get("device") or {},
        operator_host_seconds=operator_times.get("host") or {},
    )


def iteration_seconds(spans: Sequence[Span], windows: Sequence[Span]) -> tuple[float, ...]:
    """The seconds of each span without its overlap with windows, which are in order and do not overlap."""
    ends = [end for _, end in windows]
    seconds = []
    for start, end in spans:
        batches_per_step = 0.0
        for window in windows[bisect_right(ends, start) :]:
            if window[0] >= end:
                break
            batches_per_step += _overlap((start, end), window)
        seconds.append(max(_MIN_SECONDS, end - start - batches_per_step))
    return tuple(seconds)


def seconds_by_position(spans: Sequence[Span], windows: Sequence[Span]) -> tuple[float, ...]:
    """The seconds of the windows (validations or checkpoints), those between the same two iterations added up.

    Windows before the first iteration are left out: some frameworks run the validation there on a batch or two.
    """
    ends = [end for _, end in spans]
    seconds: dict[int, float] = {}
    for start, end in windows:
        position = bisect_right(ends, start)
        if position:
            seconds[position] = seconds.get(position, 0.0) + end - start
    return tuple(seconds[position] for position in sorted(seconds))


def count_epochs(
    spans: Sequence[Span],
    windows: Sequence[Span],
    losses: Sequence[float | None],
    length: int | None,
    *,
    traces: Sequence[Span] = (),
    program_finished: bool,
) -> tuple[Epoch, ...]:
    """The complete epochs of `length` iterations, each with the validation after it and its mean training loss.

    An epoch is complete once the next one has begun or the program has finished: until then its validation may still be
    running. A traced iteration is given the median time of all.
    """
    if length is None:
        return ()
    starts = [start for start, _ in windows]
    typical = median(end - start for start, end in spans)
    epochs, begun = [], spans[0][0]
    for number in range(1, len(spans) // length + 1):
        last = number * length
        if last == len(spans) and not program_finished:
            break
        until = spans[last][1] if last < len(spans) else float("inf")
        between = windows[bisect_left(starts, spans[last - 1][1]) : bisect_left(starts, until)]
        ended = max([spans[last - 1][1], *(end for _, end in between)])
        known = [loss for loss in losses[last - length : last] if loss is not None]
        tracing_seconds = sum(end - start - typical for start, end in traces if begun <= start < ended)
        epochs.append(
            Epoch(number=number, seconds=ended - begun - tracing_seconds, loss=fmean(known) if known else None)
        )
        begun = ended
    return tuple(epochs)


def add_reported_metrics(curve: Sequence[Epoch], events: Iterable[Event]) -> tuple[Epoch, ...]:
    """The curve with the metrics that the framework reported for each epoch; of a metric the last value counts."""
    epochs = {epoch.number: epoch for epoch in curve}
    for event in events:
        if event["event"] == "epoch":
            number = event["number"]
            known = epochs.get(number) or Epoch(number=number)
            reported = {name: value for name, value in (event.get("metrics") or {}).items() if value is not None}
            known = replace(known, loss=event.get("loss", known.loss), seconds=event.get("seconds", known.seconds))
            epochs[number] = replace(known, metrics={**known.metrics, **reported})
    return tuple(epochs[number] for number in sorted(epochs))


def iterations_per_pass(events: Sequence[Event], spans: Sequence[Span]) -> int | None:
    """The iterations of the first pass that ended and was followed by another: the length of an epoch of a stream that
    does not know its own length. None if there is no such pass."""
    starts = [start for start, _ in _spans(events, "pass")]
    ends = [end for _, end in _spans(events, "pass_end")]
    for start, following in pairwise(starts):
        if any(start < end <= following for end in ends):
            return sum(start < end <= following for _, end in spans) or None
    return None


def iterations_between_validations(events: Iterable[Event]) -> int | None:
    """The iterations between two validations, which are taken for an epoch of a program without a loader.

    At least `MIN_VALIDATIONS` must be the same number of iterations apart; others may be a multiple of it, because one
    may have been missed. None otherwise.
    """
    positions = sorted({event["after"] for event in events if event["event"] == "window" and "after" in event} - {0})
    lengths = Counter(later - earlier for earlier, later in pairwise([0, *positions]))
    if not lengths:
        return None
    length, times = lengths.most_common(1)[0]
    return length if times >= MIN_VALIDATIONS and all(other % length == 0 for other in lengths) else None


def bytes_per_iteration(events: Iterable[Event]) -> dict[str, Any]:
    """Bytes sent and received per iteration, between the first and the last reading."""
    readings = [event for event in events if event["event"] == "network"]
    iterations = readings[-1]["n"] - readings[0]["n"] if readings else 0
    if iterations < 1:
        return {}
    return {
        f"{direction}_bytes": max(0, round((readings[-1][direction] - readings[0][direction]) / iterations))
        for direction in ("sent", "received")
    }


def subtract_spans(spans: Iterable[Span], holes: Sequence[Span]) -> list[Span]:
    """The spans without the holes, which are in order."""
    result: list[Span] = []
    for start, end in spans:
        at = start
        for hole_start, hole_end in holes:
            if hole_end <= at or hole_start >= end:
                continue
            if hole_start > at:
                result.append((at, hole_start))
            at = hole_end
        if at < end:
            result.append((at, end))
    return result


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """The spans with overlapping ones merged."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def read_operations(traced: Event) -> tuple[Operation, ...]:
    """The operations that the probe wrote, with the fields that it knew."""
    return msgspec.convert(traced.get("operations", ()), tuple[Operation, ...])


def computing_dtype(operations: Iterable[Operation], device: str | None = "cuda") -> str | None:
    """The dtype with most FLOPs, which under autocast is not that of the parameters.

    TF32 exists on GPUs only: on other devices what the program allows to run in TF32 ran in float32.
    """
    flops: Counter[str] = Counter()
    for operation in operations:
        dtype = "float32" if operation.dtype == "tf32" and device != "cuda" else operation.dtype
        flops[dtype] += int(operation.flops * operation.count)
    return max(flops, key=lambda dtype: flops[dtype]) if any(flops.values()) else None


def cpu_use(events: Iterable[Event]) -> float | None:
    """The number of cores that the process used on average, without the workers of its loaders."""
    readings = [(event["time"], event["seconds"]) for event in events if event["event"] == "cpu"]
    if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
        return None
    return float((readings[-1][1] - readings[0][1]) / (readings[-1][0] - readings[0][0]))


def cpu_queue_share(events: Iterable[Event]) -> float | None:
    """The share of the time in which the main thread waited for a CPU; None if it was not measured."""
    readings = [(event["time"], event["queued"]) for event in events if event["event"] == "cpu" and "queued" in event]
    if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
        return None
    share = float((readings[-1][1] - readings[0][1]) / (readings[-1][0] - readings[0][0]))
    return min(1.0, max(0.0, share))


def loader_cpu_seconds(events: Iterable[Event]) -> float | None:
    """The CPU time of the workers of loaders for one iteration; None if there are none, or if it was not measured."""
    events = list(events)
    if not _last_event(events, "loader").get("workers"):
        return None
    readings = [event for event in events if event["event"] == "cpu" and "workers" in event and "n" in event]
    # Workers prepare some batches before the first iteration: the first reading is after it.
    readings = [event for event in readings if event["n"] >= 1]
    if len(readings) < 2 or readings[-1]["n"] <= readings[0]["n"]:
        return None
    used = readings[-1]["workers"] - readings[0]["workers"]
    return max(0.0, float(used / (readings[-1]["n"] - readings[0]["n"])))


def _add_observed_length(
    events: Sequence[Event], spans: Sequence[Span], epoch: dict[str, Any], sources: dict[str, str]
) -> None:
    """Add the length of an epoch as the course of the run shows it."""
    for value, source in (
        (iterations_per_pass(events, spans), "the first pass over the data"),
        (iterations_between_validations(events), "the iterations between validations"),
    ):
        if value:
            epoch["iterations_per_epoch"], sources["iterations_per_epoch"] = value, source
            return


def _schedule(events: Sequence[Event], epochs: float | None) -> dict[str, Any]:
    """Early stopping and the learning-rate schedule that the program has planned."""
    plan = _last_event(events, "plan")
    stopping = plan.get("early_stopping")
    planned = None if epochs is None else math.ceil(epochs)
    return {
        "early_stopping": None if stopping is None else EarlyStopping(**stopping),
        "learning_rate_schedule": plan.get("schedule") or _last_event(events, "model").get("schedule"),
        "learning_rate_plan": tuple(_last_event(events, "learning_rate_plan").get("values") or ())[:planned],
    }


def _spans(events: Iterable[Event], kind: str) -> list[Span]:
    return [(event["start"], event["end"]) for event in events if event["event"] == kind]


def _select(positions: Iterable[int], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(values[position] for position in positions)


def _framework(model: Event, imports: Sequence[Event]) -> dict[str, Any]:
    """The framework that trained, by its own event. Others may be imported too: TensorFlow imports Keras and JAX."""
    versions = {event["name"]: event["version"] for event in imports}
    name = model.get("framework") or ("torch" if "torch" in versions else imports[-1]["name"])
    version = model.get("framework_version") or versions.get(name, "")
    return {"framework": _FRAMEWORKS.get(name, name), "framework_version": version.partition("+")[0] or None}


def learning_rates(events: Iterable[Event], iterations: Sequence[Event]) -> list[float | None]:
    """The learning rate of each iteration, as read at the iteration or computed from the schedule afterwards."""
    rates = [event["learning_rate"] for event in iterations]
    for event in events:
        if event["event"] == "learning_rates":
            for position, value in enumerate(event["values"][: len(rates)]):
                rates[position] = value
    return rates


def _losses(events: Sequence[Event], count: int, accumulation_steps: int) -> tuple[float | None, ...]:
    """The loss of each iteration. Where it was divided, the probe adds up the losses of its passes: if not by their
    number, the sum is not the loss of the iteration, and their mean is used."""
    divisor = _last_event(events, "input").get("loss_divisor") or 1
    passes = 1 if divisor in (1, accumulation_steps) else accumulation_steps
    values: list[float | None] = [None] * count
    for event in events:
        if event["event"] == "losses":
            for number, value in enumerate(event["values"], start=event["first"]):
                if number <= count:
                    values[number - 1] = value if value is None or passes == 1 else value / passes
    return tuple(values) if any(value is not None for value in values) else ()


def _last_event(events: Iterable[Event], kind: str) -> Event:
    found: Event = {}
    for event in events:
        if event["event"] == kind:
            found = event
    return found


def _overlap(a: Span, b: Span) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
