"""Job traces of stanford-futuredata/gavel (MIT) with measured throughputs, read as queues.

A line of a trace is one job, with its fields separated by tabs, in one of two formats:

    job type, command, flag, data?, steps, submitted (s), GPUs
    job type, command, folder, flag, data?, steps, GPUs, weight, SLO, submitted (s)

and a job type is `model (batch size b)`, or a model alone. The rate of steps is in the table `throughput.csv`
(gpu,servers,gpus,model,batch_size_per_gpu,steps_per_second_summed_over_workers), so that

    true seconds on g GPUs = steps / steps a second of g workers together

on 1, 2, 4 or 8 GPUs of one server; GPUs spread over `many` servers are a gang of machines with one GPU. A model that
was not measured on a machine cannot run there. A trace says how many GPUs its author requested; by default the
scheduler can choose another number.

Deadlines and the cost of lateness are not in the traces: they follow the rule of Jahani et al. 2019, from a seed, by
the shortest time on one machine. Predictions are the true times, or wrong by a factor e^N(0, error) for each job.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainfare.errors import UsageError
from trainfare.measurements.instances import LoadedInstance, excluded_jobs
from trainfare.measurements.table_lines import TableLine, read_table
from trainfare.model.queue import Instance, Job, NodeType, Slot
from trainfare.units import plural

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
"""On-demand prices from public tables: AWS us-east-1 of 2022-11-03, and Google us-central1 of 2026-08-22."""

COLUMNS = ("gpu", "servers", "gpus", "model", "batch_size_per_gpu", "steps_per_second_summed_over_workers")
FIELDS = {7: {"steps": 4, "submitted": 5, "gpus": 6}, 10: {"steps": 5, "gpus": 6, "submitted": 9}}
"""The positions of the numbers, by the number of fields of a line."""
JOB_TYPE = re.compile(r"(?P<model>.+?)(?: \(batch size (?P<batch>\d+)\))?")

SLACK = (1.0, 3.0)
HALF_LATE_USD_PER_SECOND = (0.0015, 0.0075)
"""Jahani et al. 2019: deadline = submission + U(1, 3) × shortest time, lateness 2·U(0.0015, 0.0075) $/s."""

Throughputs = Mapping[tuple[str, str, Slot], float]
"""(model, batch, slot) → steps a second; the type of the slot is the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The options of an import, shared by Python, the command line and the server."""

    jobs: int | None = None
    """The number of jobs to read; None: all. Errors in later lines are then not reported."""
    gangs: bool = False
    """Jobs can use several machines of one GPU."""
    requested_gpus_only: bool = False
    """Jobs run only on as many GPUs as their author requested."""
    error: float = 0.0
    """The standard deviation of log(true/predicted)."""
    seed: int = 0
    """The seed of deadlines, of the cost of lateness and of the errors."""


DEFAULT_OPTIONS = TraceOptions()


@dataclass(frozen=True, slots=True)
class _TraceJob:
    """A job as a line of a trace describes it."""

    line: int
    model: str
    batch: str
    steps: float
    submitted: float
    gpus: int


def read_job_trace(
    trace: Path,
    throughput: Path,
    options: TraceOptions = DEFAULT_OPTIONS,
    *,
    types: tuple[NodeType, ...] = MACHINES,
) -> LoadedInstance:
    """The queue of a trace on these machines.

    Jobs whose line is invalid, or that were measured on none of the machines, are excluded with a reason.
    """
    rates = _throughputs(throughput)
    slots = _slots(types, rates, throughput, gangs=options.gangs)
    gpu_of = {each.name: each.gpu for each in types}
    found: list[tuple[_TraceJob, tuple[float, ...]]] = []
    errors: dict[int, str] = {}
    for number, fields in _lines(trace):
        try:
            job = _parse_line(fields, f"{trace}, line {number}", number)
            seconds = _seconds(job, slots, gpu_of, rates, requested_only=options.requested_gpus_only)
        except ValueError as error:
            errors[number] = str(error)
        else:
            found.append((job, seconds))
    if errors and not found:
        raise UsageError(f"no job of {trace} can be scheduled: {next(iter(errors.values()))}", field="trace")
    found.sort(key=lambda each: each[0].submitted)
    count = len(found) if options.jobs is None else options.jobs
    found, later = found[:count], found[count:]
    last = max((job.line for job, _ in found), default=0) if later else math.inf
    return LoadedInstance(
        instance=_instance(found, types, slots, options),
        excluded=excluded_jobs({f"J{number}": message for number, message in errors.items() if number < last}),
    )


def _lines(trace: Path) -> list[tuple[int, list[str]]]:
    """The number and the fields of each line that is not empty."""
    try:
        lines = trace.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise UsageError(f"{trace} cannot be read: {error.strerror}. Name a file of jobs.", field="trace") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{trace} is not a trace: it is not text. Name a file with one job per line.", field="trace"
        ) from error
    return [(number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip()]


def _parse_line(fields: list[str], where: str, number: int) -> _TraceJob:
    positions = FIELDS.get(len(fields))
    if positions is None:
        raise ValueError(f"{where} has {plural(len(fields), 'field')} separated by tabs; a job has 7 or 10.")
    numbers = {}
    for what, index in positions.items():
        try:
            numbers[what] = float(fields[index])
        except ValueError:
            raise ValueError(f"{where}, field {index + 1}: {fields[index]!r} is not a number of {what}.") from None
    for what, least in (("steps", 1), ("submitted", 0), ("gpus", 1)):
        if not least <= numbers[what] < math.inf:
            raise ValueError(f"{where}, field {positions[what] + 1}: {what} must be at least {least}.")
    job_type = JOB_TYPE.fullmatch(fields[0].strip())
    if job_type is None or not job_type["model"].isprintable():
        raise ValueError(f"{where}, field 1: {fields[0]!r} is not a job type.")
    return _TraceJob(
        line=number,
        model=job_type["model"],
        batch=job_type["batch"] or "",
        steps=numbers["steps"],
        submitted=numbers["submitted"],
        gpus=int(numbers["gpus"]),
    )


def _throughputs(path: Path) -> Throughputs:
    return {
        (line.text("model"), line.text("batch_size_per_gpu", ""), _measured_slot(line)): rate
        for line in read_table(path, COLUMNS)
        if (rate := line.not_negative("steps_per_second_summed_over_workers", 0.0)) > 0
    }


def _measured_slot(line: TableLine) -> Slot:
    """The measured slot. One GPU on `many` servers is one server, whose time the table has separately."""
    gpu, gpus = line.text("gpu").upper(), line.count("gpus")
    servers = line.text("servers")
    if servers == "one":
        return Slot(gpu, gpus)
    if servers != "many":
        raise line.error(
            "servers", f"{servers!r} is neither one nor many", "Write one if the GPUs share a server, else many"
        )
    return Slot(gpu, 1, gpus) if gpus > 1 else Slot(f"{gpu}, of many", 1)


def _slots(types: tuple[NodeType, ...], rates: Throughputs, path: Path, *, gangs: bool) -> tuple[Slot, ...]:
    """The measured slots, type by type, gangs last."""
    measured = sorted({slot for _, _, slot in rates}, key=lambda slot: (slot.nodes, slot.gpus))
    slots = [
        Slot(each.name, slot.gpus, slot.nodes)
        for is_gang in (False, True)
        for each in types
        for slot in measured
        if slot.type == each.gpu.upper() and slot.gpus <= each.gpus and (slot.nodes > 1) == is_gang
        if not is_gang or (gangs and each.gpus == slot.gpus)
    ]
    if not slots:
        gpus = ", ".join(sorted({each.gpu for each in types}))
        raise UsageError(f"{path} has no throughput of {gpus}: name another table.", field="throughputs")
    return tuple(slots)


def _seconds(
    job: _TraceJob, slots: tuple[Slot, ...], gpu_of: Mapping[str, str], rates: Throughputs, *, requested_only: bool
) -> tuple[float, ...]:
    seconds = tuple(
        job.steps / rate
        if (rate := rates.get((job.model, job.batch, Slot(gpu_of[slot.type].upper(), slot.gpus, slot.nodes))))
        and (not requested_only or slot.gpus * slot.nodes == job.gpus)
        else math.inf
        for slot in slots
    )
    if not any(map(math.isfinite, seconds)):
        batch = f" with batch size {job.batch}" if job.batch else ""
        requested = f" with {plural(job.gpus, 'GPU')}" if requested_only else ""
        raise ValueError(f"{job.model}{batch} was measured on none of the machines{requested}.")
    return seconds


def _instance(
    found: list[tuple[_TraceJob, tuple[float, ...]]],
    types: tuple[NodeType, ...],
    slots: tuple[Slot, ...],
    options: TraceOptions,
) -> Instance:
    due, late, wrong = (np.random.default_rng([options.seed, stream]) for stream in range(3))
    slack = due.uniform(*SLACK, len(found))
    weight = 2 * late.uniform(*HALF_LATE_USD_PER_SECOND, len(found))
    factor = np.exp(options.error * wrong.standard_normal(len(found)))
    jobs = tuple(
        Job(
            id=f"J{job.line}",
            submitted_seconds=job.submitted,
            deadline_seconds=job.submitted + float(slack[number]) * _shortest(seconds, slots) / float(factor[number]),
            late_usd_per_second=float(weight[number]),
            seconds=tuple(each / float(factor[number]) for each in seconds),
            log_error=options.error,
        )
        for number, (job, seconds) in enumerate(found)
    )
    return Instance(
        types=types,
        slots=slots,
        jobs=jobs,
        true_seconds=tuple(seconds for _, seconds in found) if options.error else (),
    )


def _shortest(seconds: tuple[float, ...], slots: tuple[Slot, ...]) -> float:
    """The shortest time on one machine, so that gangs do not change deadlines; on gangs for a job that needs one."""
    alone = min(each for each, slot in zip(seconds, slots, strict=True) if slot.nodes == 1)
    return alone if alone < math.inf else min(seconds)
