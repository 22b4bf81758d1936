"""The probe's events → facts. Pure: what an event is, `probe/` decides; what it means, this file.

An iteration's time is its span without the windows (validations) that lie in it. The windows between two
iterations are one validation. Of several processes that train, the one with most iterations speaks.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from trainfare.model.machine import Host
from trainfare.model.profile import Ending, Operation, Profile
from trainfare.model.program import Program

Event = dict[str, Any]
Span = tuple[float, float]

_FRAMEWORKS = {"torch": "pytorch"}
_DEVICES = ("cpu", "cuda", "mps", "xpu", "tpu")
_SHORTEST_SECONDS = 1e-9
"""The resolution of the clock: an iteration is never shorter."""


def parse_events(text: bytes) -> list[Event]:
    """One a line. A line that a kill cut off is dropped, and so is what is not ours."""
    events = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            continue
        if event["event"] == "iterations":
            events += _unpacked(event)
        else:
            events.append(event)
    return events


def _unpacked(event: Event) -> list[Event]:
    """The probe writes iterations together, to be cheap; each is an event of its own."""
    fields = ("start", "end", "wait", "batches", "learning_rate")
    return [
        {"event": "iteration", "pid": event["pid"], "n": n, **dict(zip(fields, row, strict=True))}
        for n, row in enumerate(event["rows"], start=event["first"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the probe noticed, in every process together: it explains why there is no profile."""

    inside_python: bool
    frameworks: tuple[str, ...]
    troubles: tuple[str, ...]


def what_was_seen(events: Iterable[Event]) -> Seen:
    events = list(events)
    return Seen(
        inside_python=any(event["event"] == "python" for event in events),
        frameworks=tuple(dict.fromkeys(event["name"] for event in events if event["event"] == "import")),
        troubles=tuple(
            f"{event['where']}: {event['what'].strip().splitlines()[-1]}"
            for event in events
            if event["event"] == "trouble"
        ),
    )


def of_leading_process(events: Sequence[Event]) -> list[Event]:
    """Those of the process that trained most; all, where none did."""
    counts = Counter(event["pid"] for event in events if event["event"] == "iteration")
    if not counts:
        return list(events)
    leader = max(counts, key=lambda pid: counts[pid])
    return [event for event in events if event["pid"] == leader]


def gpu_of(events: Iterable[Event]) -> tuple[str | None, int]:
    """Name and number of the GPUs, as the framework told them."""
    model = _last(events, "model")
    return model.get("gpu"), model.get("gpus") or 0


def profile_of(
    events: Sequence[Event],
    *,
    id: str,  # noqa: A002 # the field of the noun
    program: Program,
    host: Host,
    measured_at: datetime,
    ending: Ending,
    started: float,
) -> Profile:
    """`started` is when the program was started, on the clock of the events. Needs at least one iteration."""
    # A forked child inherits what its parent has imported.
    framework = _last(events, "import") | _last(of_leading_process(events), "import")
    events = of_leading_process(events)
    iterations = sorted((event for event in events if event["event"] == "iteration"), key=lambda e: e["n"])
    spans = [(event["start"], event["end"]) for event in iterations]
    windows = merged((e["start"], e["end"]) for e in events if e["event"] == "window")
    model, memory, traced = (_last(events, kind) for kind in ("model", "memory", "operations"))
    batches = [event["batches"] for event in iterations]
    operations = tuple(Operation(kind=k, dtype=d, flops=f, bytes=b, count=n) for k, d, f, b, n in _rows(traced))
    return Profile(
        id=id,
        program=program,
        host=host,
        measured_at=measured_at,
        ending=ending,
        framework=_FRAMEWORKS.get(framework["name"]) or framework["name"],
        framework_version=framework["version"].partition("+")[0] or None,
        device=model["device"] if model.get("device") in _DEVICES else None,
        dtype=computing_dtype(operations) or model.get("dtype"),
        world_size=model.get("world_size") or 1,
        **_epoch(_last(events, "loader"), batches, model.get("world_size") or 1),
        validation_samples=_last(events, "validation").get("samples") or None,
        parameters=model.get("parameters") or None,
        gradient_bytes=model.get("gradient_bytes"),
        optimizer=model.get("optimizer"),
        optimizer_bytes=model.get("optimizer_bytes"),
        activation_bytes=traced.get("activation_bytes"),
        peak_host_bytes=memory.get("host_bytes"),
        peak_device_bytes=memory.get("device_bytes"),
        init_seconds=max(0.0, spans[0][0] - started),
        iteration_seconds=iteration_seconds(spans, windows),
        data_wait_seconds=tuple(event["wait"] for event in iterations) if any(batches) else (),
        validation_seconds=validation_seconds(spans, windows),
        loss=_losses(events, len(iterations)),
        learning_rate=tuple(event["learning_rate"] for event in iterations),
        cpu_use=cpu_use(events),
        operations=operations,
    )


def iteration_seconds(spans: Sequence[Span], windows: Sequence[Span]) -> tuple[float, ...]:
    """Each span without what windows take of it."""
    return tuple(
        max(_SHORTEST_SECONDS, end - start - sum(_overlap((start, end), window) for window in windows))
        for start, end in spans
    )


def validation_seconds(spans: Sequence[Span], windows: Sequence[Span]) -> tuple[float, ...]:
    """One for each place between iterations where there was any. Before the first iteration nothing is validated:
    some frameworks try the validation code there on a batch or two."""
    ends = [end for _, end in spans]
    by_place: dict[int, float] = {}
    for start, end in windows:
        place = bisect_right(ends, start)
        if place:
            by_place[place] = by_place.get(place, 0.0) + end - start
    return tuple(by_place[place] for place in sorted(by_place))


def merged(spans: Iterable[Span]) -> list[Span]:
    """Overlapping spans as one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def computing_dtype(operations: Iterable[Operation]) -> str | None:
    """The dtype of most FLOPs: under autocast not that of the parameters."""
    flops: Counter[str] = Counter()
    for operation in operations:
        flops[operation.dtype] += int(operation.flops * operation.count)
    return max(flops, key=lambda dtype: flops[dtype]) if any(flops.values()) else None


def cpu_use(events: Iterable[Event]) -> float | None:
    """Cores kept busy by the process itself, without the workers of its loaders."""
    seen = [(event["time"], event["seconds"]) for event in events if event["event"] == "cpu"]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return None
    return float((seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]))


def _epoch(loader: Event, batches: Sequence[int], processes: int) -> dict[str, Any]:
    """Batch size, samples and iterations of an epoch. A step may take several batches (gradient accumulation);
    where steps take less than one, the length of an epoch is not known."""
    taken = median(batches) if batches else 0
    size, length = loader.get("batch_size"), loader.get("length")
    if not loader or taken < 1:
        return {"batch_size": size, "samples": loader.get("samples") or None, "iterations_per_epoch": None}
    accumulated = round(taken)
    return {
        "batch_size": size,
        "global_batch_size": size * accumulated * processes if size else None,
        "samples": loader.get("samples") or None,
        "iterations_per_epoch": -(-length // accumulated) if length else None,
    }


def _losses(events: Iterable[Event], count: int) -> tuple[float | None, ...]:
    values: list[float | None] = [None] * count
    for event in events:
        if event["event"] == "losses":
            for number, value in enumerate(event["values"], start=event["first"]):
                if number <= count:
                    values[number - 1] = value
    return tuple(values) if any(value is not None for value in values) else ()


def _rows(traced: Event) -> list[tuple[Any, str, float, float, int]]:
    return [tuple(row) for row in traced.get("operations", ())]


def _last(events: Iterable[Event], kind: str) -> Event:
    found: Event = {}
    for event in events:
        if event["event"] == kind:
            found = event
    return found


def _overlap(a: Span, b: Span) -> float:
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
