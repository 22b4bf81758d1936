"""Queues that were made to try schedulers, with measured throughputs: the traces of stanford-futuredata/gavel (MIT).

A line of a trace is one job, its fields divided by tabs, in one of two forms:

    job type, command, flag, data?, steps, submitted (s), GPUs
    job type, command, folder, flag, data?, steps, GPUs, weight, SLO, submitted (s)

and a job type is `model (batch size b)`, or a model alone. What a step takes stands in the table `throughput.csv`
(gpu,servers,gpus,model,batch_size_per_gpu,steps_per_second_summed_over_workers), so that

    true seconds on g GPUs = steps / steps a second of g workers together

on 1, 2, 4 or 8 GPUs of one server; GPUs spread over `many` servers are a gang of machines with one GPU. A model that
was not timed somewhere cannot run there. A trace tells how many GPUs its author asked for; a scheduler that may choose
need not care, one that may not is given `asked_only`.

Deadlines and what lateness costs are not in the traces: they follow the rule of Jahani et al. 2019, from a seed, by the
shortest time on one machine. Predictions are the true times, or wrong by a factor e^N(0, log_error) each job.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainfare.errors import UsageError
from trainfare.measurements.instances import LoadedInstance
from trainfare.measurements.lines import Line, read_lines
from trainfare.model.queue import Instance, Job, NodeType, Slot

MACHINES = (
    NodeType(name="p2.xlarge", gpu="K80", gpus=1, usd_per_hour=0.9),
    NodeType(name="p2.8xlarge", gpu="K80", gpus=8, usd_per_hour=7.2),
    NodeType(name="n1-standard-8+1xP100", gpu="P100", gpus=1, usd_per_hour=1.84),
    NodeType(name="n1-standard-16+2xP100", gpu="P100", gpus=2, usd_per_hour=3.68),
    NodeType(name="n1-standard-32+4xP100", gpu="P100", gpus=4, usd_per_hour=7.35999),
    NodeType(name="p3.2xlarge", gpu="V100", gpus=1, usd_per_hour=3.06),
    NodeType(name="p3.8xlarge", gpu="V100", gpus=4, usd_per_hour=12.24),
    NodeType(name="p3.16xlarge", gpu="V100", gpus=8, usd_per_hour=24.48),
)
"""On demand: AWS us-east-1, seen on 2022-11-03, and Google us-central1, seen on 2026-08-22, in public price tables."""

COLUMNS = ("gpu", "servers", "gpus", "model", "batch_size_per_gpu", "steps_per_second_summed_over_workers")
FIELDS = {7: {"steps": 4, "submitted": 5, "gpus": 6}, 10: {"steps": 5, "gpus": 6, "submitted": 9}}
"""Where numbers stand, by how many fields a line has."""
JOB_TYPE = re.compile(r"(?P<model>.+?)(?: \(batch size (?P<batch>\d+)\))?")

SLACK = (1.0, 3.0)
HALF_LATE_USD_PER_SECOND = (0.0015, 0.0075)
"""Jahani et al. 2019: deadline = submission + U(1, 3) × shortest time, lateness 2·U(0.0015, 0.0075) $/s."""

Throughputs = Mapping[tuple[str, str, Slot], float]
"""(model, batch, slot) → steps a second; of a slot the type is the GPU."""


@dataclass(frozen=True, slots=True)
class _Traced:
    """A job as a line of a trace tells it."""

    line: int
    model: str
    batch: str
    steps: float
    submitted: float
    gpus: int


def read_job_trace(
    trace: Path,
    throughput: Path,
    *,
    types: tuple[NodeType, ...] = MACHINES,
    jobs: int | None = None,
    gangs: bool = False,
    asked_only: bool = False,
    log_error: float = 0.0,
    seed: int = 0,
) -> LoadedInstance:
    """The queue of a trace on these machines; `gangs` lets jobs go over several machines of one GPU.

    Jobs of which a line makes no sense, or that were timed on none of the machines, are left out with a sentence.
    With `jobs`, the first so many of the others make the queue, and lines after theirs are not complained of.
    """
    rates = _throughputs(throughput)
    slots = _slots(types, rates, throughput, gangs=gangs)
    gpu_of = {each.name: each.gpu for each in types}
    found: list[tuple[_Traced, tuple[float, ...]]] = []
    left_out: dict[int, str] = {}
    for number, fields in _lines(trace):
        try:
            job = _traced(fields, f"{trace}, line {number}", number)
            seconds = _seconds(job, slots, gpu_of, rates, asked_only=asked_only)
        except ValueError as error:
            left_out[number] = f"job J{number} is left out: {error}"
        else:
            found.append((job, seconds))
    if left_out and not found:
        raise UsageError(f"no job of {trace} can be scheduled: {next(iter(left_out.values()))}")
    found.sort(key=lambda each: each[0].submitted)
    found, later = (found, []) if jobs is None else (found[:jobs], found[jobs:])
    last = max((job.line for job, _ in found), default=0) if later else math.inf
    return LoadedInstance(
        instance=_instance(found, types, slots, log_error=log_error, seed=seed),
        left_out=tuple(sentence for number, sentence in left_out.items() if number < last),
    )


def _lines(trace: Path) -> list[tuple[int, list[str]]]:
    """Number and fields of each line that is not empty."""
    try:
        lines = trace.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"the trace {trace} cannot be read: {error.strerror}. Name a file of jobs.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{trace} is not a trace: it is not text. Name a file with a job a line.") from error
    return [(number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip()]


def _traced(fields: list[str], where: str, number: int) -> _Traced:
    places = FIELDS.get(len(fields))
    if places is None:
        counted = f"{len(fields)} field{'s' * (len(fields) > 1)}"
        raise ValueError(f"{where} has {counted} divided by tabs; 7 or 10 make a job.")
    numbers = {}
    for what, place in places.items():
        try:
            numbers[what] = float(fields[place])
        except ValueError:
            raise ValueError(f"{where}, field {place + 1}: {fields[place]!r} is not a number of {what}.") from None
    for what, least in (("steps", 1), ("submitted", 0), ("gpus", 1)):
        if not least <= numbers[what] < math.inf:
            raise ValueError(f"{where}, field {places[what] + 1}: {what} must be at least {least}.")
    kind = JOB_TYPE.fullmatch(fields[0].strip())
    if kind is None or not kind["model"].isprintable():
        raise ValueError(f"{where}, field 1: {fields[0]!r} does not tell which model it is.")
    return _Traced(
        line=number,
        model=kind["model"],
        batch=kind["batch"] or "",
        steps=numbers["steps"],
        submitted=numbers["submitted"],
        gpus=int(numbers["gpus"]),
    )


def _throughputs(path: Path) -> Throughputs:
    return {
        (line.text("model"), line.text("batch_size_per_gpu", ""), _measured_slot(line)): rate
        for line in read_lines(path, COLUMNS)
        if (rate := line.not_negative("steps_per_second_summed_over_workers", 0.0)) > 0
    }


def _measured_slot(line: Line) -> Slot:
    """Many servers with one GPU in all are one server: the table of one server has that time too."""
    gpu, gpus = line.text("gpu").upper(), line.count("gpus")
    servers = line.text("servers")
    if servers == "one":
        return Slot(gpu, gpus)
    if servers != "many":
        raise line.wrong("servers", f"{servers!r} is neither one nor many", "Say whether the GPUs share a server")
    return Slot(gpu, 1, gpus) if gpus > 1 else Slot(f"{gpu}, of many", 1)


def _slots(types: tuple[NodeType, ...], rates: Throughputs, path: Path, *, gangs: bool) -> tuple[Slot, ...]:
    """What was measured, type by type, gangs last."""
    measured = sorted({slot for _, _, slot in rates}, key=lambda slot: (slot.nodes, slot.gpus))
    slots = [
        Slot(each.name, slot.gpus, slot.nodes)
        for many in (False, True)
        for each in types
        for slot in measured
        if slot.type == each.gpu.upper() and slot.gpus <= each.gpus and (slot.nodes > 1) == many
        if not many or (gangs and each.gpus == slot.gpus)
    ]
    if not slots:
        wanted = ", ".join(sorted({each.gpu for each in types}))
        raise UsageError(f"{path} has no throughput of {wanted}: choose other machines, or another table.")
    return tuple(slots)


def _seconds(
    job: _Traced, slots: tuple[Slot, ...], gpu_of: Mapping[str, str], rates: Throughputs, *, asked_only: bool
) -> tuple[float, ...]:
    seconds = tuple(
        job.steps / rate
        if (rate := rates.get((job.model, job.batch, Slot(gpu_of[slot.type].upper(), slot.gpus, slot.nodes))))
        and (not asked_only or slot.gpus * slot.nodes == job.gpus)
        else math.inf
        for slot in slots
    )
    if not any(map(math.isfinite, seconds)):
        batch = f" with batch size {job.batch}" if job.batch else ""
        asked = f" with {job.gpus} GPUs" if asked_only else ""
        raise ValueError(f"{job.model}{batch} was timed on none of the machines{asked}.")
    return seconds


def _instance(
    found: list[tuple[_Traced, tuple[float, ...]]],
    types: tuple[NodeType, ...],
    slots: tuple[Slot, ...],
    *,
    log_error: float,
    seed: int,
) -> Instance:
    due, late, wrong = (np.random.default_rng([seed, stream]) for stream in range(3))
    slack = due.uniform(*SLACK, len(found))
    weight = 2 * late.uniform(*HALF_LATE_USD_PER_SECOND, len(found))
    factor = np.exp(log_error * wrong.standard_normal(len(found)))
    jobs = tuple(
        Job(
            id=f"J{job.line}",
            submitted_seconds=job.submitted,
            deadline_seconds=job.submitted + float(slack[number]) * _shortest(seconds, slots) / float(factor[number]),
            late_usd_per_second=float(weight[number]),
            seconds=tuple(each / float(factor[number]) for each in seconds),
            log_error=log_error,
        )
        for number, (job, seconds) in enumerate(found)
    )
    return Instance(
        types=types, slots=slots, jobs=jobs, true_seconds=tuple(seconds for _, seconds in found) if log_error else ()
    )


def _shortest(seconds: tuple[float, ...], slots: tuple[Slot, ...]) -> float:
    """On one machine, so that gangs do not move deadlines; of a job that runs on several only, there."""
    alone = min(each for each, slot in zip(seconds, slots, strict=True) if slot.nodes == 1)
    return alone if alone < math.inf else min(seconds)
