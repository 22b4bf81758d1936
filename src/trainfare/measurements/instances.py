"""A queue to schedule as a folder of tables; instances of Jahani et al. 2019 written in this format are read unchanged.

    jobs.csv     job,submitted_s,deadline_s,tardiness_usd_per_s                  optional: user,log_error
    times.csv    job,vm_type,vm_gpus,vm_usd_per_hour,gpus_used,seconds           optional: gpu,nodes,true_seconds,
                                                                                 reclaims_per_hour,most
    quotas.csv   user,gpus                                                       if there are quotas

A line of times.csv is one job on one slot. Where a job has no line for a slot, or `inf` seconds, it cannot run there. A
line without a job and without seconds only declares the slot. A deadline that is empty or `inf` means no deadline.
Without a column `gpu`, types have the same GPU if every job takes equally long (1e-6) on as many GPUs of either.

A job with an error is excluded with a reason, and the others are read. An error in the tables or the machines raises a
UsageError, because the rest could not be trusted.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainfare.errors import UsageError
from trainfare.measurements.table_lines import TableLine, read_table
from trainfare.model.queue import ExcludedJob, Instance, Job, NodeType, Slot
from trainfare.model.reason import text_reason

JOBS, TIMES, QUOTAS = "jobs.csv", "times.csv", "quotas.csv"
JOB_COLUMNS = ("job", "submitted_s", "deadline_s", "tardiness_usd_per_s")
TIME_COLUMNS = ("job", "vm_type", "vm_gpus", "vm_usd_per_hour", "gpus_used", "seconds")
QUOTA_COLUMNS = ("user", "gpus")

TYPE_FIELDS = {
    "vm_gpus": "gpus",
    "vm_usd_per_hour": "usd_per_hour",
    "gpu": "gpu",
    "reclaims_per_hour": "reclaims_per_hour",
    "most": "max_nodes",
}
"""Column → field of NodeType: all lines of a type must agree on these."""

UNKNOWN_GPU = "GPU"
"""Replaces a GPU without a name, and begins the name that is generated for it."""

SAME_TIME_TOLERANCE = 1e-6
"""A relative difference; the published tables have three decimals of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedInstance:
    """The queue that was read, and the jobs of it that cannot be scheduled."""

    instance: Instance
    excluded: tuple[ExcludedJob, ...]


_Times = dict[str, dict[Slot, tuple[float, float]]]
"""job → slot → (predicted seconds, true seconds)"""


def read_instance(folder: Path) -> LoadedInstance:
    """The instance in `folder`, its jobs in the order of their submission."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: name one with {JOBS} and {TIMES}.", field="instance")
    jobs = _job_lines(folder / JOBS)
    lines = read_table(folder / TIMES, TIME_COLUMNS)
    if not lines:
        raise UsageError(f"{folder / TIMES} has no lines, so no machine is known. Add the times of jobs on machines.")
    slots = tuple(dict.fromkeys(map(_slot, lines)))
    types = _types(lines)
    times, errors = _times(lines)
    valid = []
    for name in dict.fromkeys((*jobs, *times, *errors)):
        try:
            if name not in jobs:
                raise UsageError(
                    f"{folder / TIMES} has times of it, but {folder / JOBS} does not list it. Add it there."
                )
            if name not in errors:
                valid.append(_job(jobs[name], times.get(name, {}), slots))
        except UsageError as error:
            errors[name] = str(error)
    if jobs and not valid:
        name, message = next(iter(errors.items()))
        raise UsageError(f"no job of {folder} can be scheduled. Job {name}: {message}")
    valid.sort(key=lambda each: each[0].submitted_seconds)
    instance = Instance(
        types=_with_gpus(types, times),
        slots=slots,
        jobs=tuple(job for job, _ in valid),
        true_seconds=tuple(true for _, true in valid) if any(job.seconds != true for job, true in valid) else (),
        quotas=_quotas(folder / QUOTAS),
    )
    return LoadedInstance(instance=instance, excluded=excluded_jobs(errors))


def excluded_jobs(errors: Mapping[str, str]) -> tuple[ExcludedJob, ...]:
    """The jobs with these errors, as excluded jobs."""
    return tuple(
        ExcludedJob(job=name, reason=text_reason("why", message.rstrip("."))) for name, message in errors.items()
    )


def _job_lines(path: Path) -> dict[str, TableLine]:
    found: dict[str, TableLine] = {}
    for line in read_table(path, JOB_COLUMNS):
        name = line.text("job")
        if name in found:
            raise line.error("job", f"{name} is already in line {found[name].number}", "Give each job an id of its own")
        found[name] = line
    return found


def _slot(line: TableLine) -> Slot:
    slot = Slot(line.text("vm_type"), line.count("gpus_used"), line.count("nodes", 1))
    gpus = line.count("vm_gpus")
    if slot.gpus > gpus:
        raise line.error("gpus_used", f"a {slot.type} has {gpus}, not {slot.gpus}", f"Give at most {gpus}")
    if slot.nodes > 1 and slot.gpus < gpus:
        raise line.error("gpus_used", f"a job on {slot.nodes} nodes takes complete nodes", f"Give {gpus}")
    return slot


def _types(lines: Sequence[TableLine]) -> tuple[NodeType, ...]:
    """The types, each from its first line; a later line that differs is an error. `gpu` may still be unknown."""
    first: dict[str, tuple[TableLine, NodeType]] = {}
    for line in lines:
        max_nodes = line.count("most", -1, minimum=-1)
        name = line.text("vm_type")
        new = NodeType(
            name=name,
            gpu=line.text("gpu", UNKNOWN_GPU),
            gpus=line.count("vm_gpus"),
            usd_per_hour=line.finite("vm_usd_per_hour"),
            reclaims_per_hour=line.not_negative("reclaims_per_hour", 0.0),
            max_nodes=None if max_nodes < 0 else max_nodes,
        )
        before, known = first.setdefault(name, (line, new))
        for column, field in TYPE_FIELDS.items():
            if (one := getattr(new, field)) != (other := getattr(known, field)):
                what = f"{name} has {one} here and {other} in line {before.number}"
                raise line.error(column, what, "Make them agree, or give the machines two names")
    return tuple(known for _, known in first.values())


def _times(lines: Sequence[TableLine]) -> tuple[_Times, dict[str, str]]:
    """The times by job and slot, and the error of each job whose times cannot be read."""
    times: _Times = {}
    errors: dict[str, str] = {}
    line_of: dict[tuple[str, Slot], int] = {}
    for line in lines:
        name, slot = line.text("job", ""), _slot(line)
        if (name, slot) in line_of:
            what = f"the same job, type and GPUs are already in line {line_of[name, slot]}"
            raise line.error("job", what, "Keep one of them")
        line_of[name, slot] = line.number
        if not name:
            if line.text("seconds", ""):
                raise line.error("job", "the line has seconds but no job", "Name the job, or leave seconds empty")
            continue
        try:
            times.setdefault(name, {})[slot] = _seconds(line)
        except UsageError as error:
            errors.setdefault(name, str(error))
    return {name: times[name] for name in times if name not in errors}, errors


def _seconds(line: TableLine) -> tuple[float, float]:
    seconds = line.positive("seconds")
    true = line.positive("true_seconds", seconds)
    if math.isinf(seconds) != math.isinf(true):
        raise line.error(
            "true_seconds", f"{true:g}, but {seconds:g} are predicted", "Give finite times or inf in both columns"
        )
    return seconds, true


def _job(
    line: TableLine, times: Mapping[Slot, tuple[float, float]], slots: tuple[Slot, ...]
) -> tuple[Job, tuple[float, ...]]:
    if not any(math.isfinite(seconds) for seconds, _ in times.values()):
        raise line.error("job", "it has no finite time on any machine", f"Add one to {TIMES}")
    deadline = line.real("deadline_s", math.inf)
    if deadline == -math.inf:
        raise line.error(
            "deadline_s", "-inf is not a deadline", "Give seconds from the start of the queue, or inf for none"
        )
    job = Job(
        id=line.text("job"),
        submitted_seconds=line.not_negative("submitted_s"),
        deadline_seconds=deadline,
        late_usd_per_second=line.not_negative("tardiness_usd_per_s"),
        seconds=tuple(times[slot][0] if slot in times else math.inf for slot in slots),
        log_error=line.not_negative("log_error", 0.0),
        user=line.text("user", ""),
    )
    return job, tuple(times[slot][1] if slot in times else math.inf for slot in slots)


def _with_gpus(types: tuple[NodeType, ...], times: _Times) -> tuple[NodeType, ...]:
    """The types with a GPU each: types without one get that of the first such type with the same times."""
    named: list[NodeType] = []
    for each in types:
        if each.gpu == UNKNOWN_GPU:
            same = (other.gpu for other in named if other.gpu.startswith(UNKNOWN_GPU) and _agree(each, other, times))
            named.append(replace(each, gpu=next(same, f"{UNKNOWN_GPU} of {each.name}")))
        else:
            named.append(each)
    return tuple(named)


def _agree(one: NodeType, other: NodeType, times: _Times) -> bool:
    """True if every job takes equally long on as many GPUs of either, wherever both times are given, at least once."""
    pairs = [
        (of_job[slot][0], of_job[counterpart][0])
        for of_job in times.values()
        for slot in of_job
        if slot.type == one.name and (counterpart := replace(slot, type=other.name)) in of_job
    ]
    return bool(pairs) and all(math.isclose(a, b, rel_tol=SAME_TIME_TOLERANCE) for a, b in pairs)


def _quotas(path: Path) -> tuple[tuple[str, int], ...]:
    if not path.exists():
        return ()
    found: dict[str, int] = {}
    for line in read_table(path, QUOTA_COLUMNS):
        user = line.text("user")
        if user in found:
            raise line.error("user", f"{user} already has a quota", "Keep one")
        found[user] = line.count("gpus", minimum=0)
    return tuple(found.items())


def write_instance(folder: Path, instance: Instance) -> None:
    """Writes the queue so that `read_instance` reads it back to the last digit. The folder is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(
        folder / JOBS,
        (*JOB_COLUMNS, "user", "log_error"),
        (
            (job.id, job.submitted_seconds, job.deadline_seconds, job.late_usd_per_second, job.user, job.log_error)
            for job in instance.jobs
        ),
    )
    rows: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
        (job.id, job.seconds, of_job) for job, of_job in zip(instance.jobs, instance.actual_seconds, strict=True)
    ]
    empty = ("",) * len(instance.slots)
    types = {each.name: each for each in instance.types}
    _write(
        folder / TIMES,
        (*TIME_COLUMNS, "gpu", "nodes", "true_seconds", "reclaims_per_hour", "most"),
        (
            _time_row(name, types[slot.type], slot, seconds[index], of_job[index])
            for name, seconds, of_job in rows or [("", empty, empty)]
            for index, slot in enumerate(instance.slots)
        ),
    )
    (folder / QUOTAS).unlink(missing_ok=True)
    if instance.quotas:
        _write(folder / QUOTAS, QUOTA_COLUMNS, instance.quotas)


def _time_row(job: str, node_type: NodeType, slot: Slot, seconds: object, true_seconds: object) -> tuple[object, ...]:
    machine = (node_type.name, node_type.gpus, node_type.usd_per_hour, slot.gpus)
    max_nodes = "" if node_type.max_nodes is None else node_type.max_nodes
    return (job, *machine, seconds, node_type.gpu, slot.nodes, true_seconds, node_type.reclaims_per_hour, max_nodes)


def _write(path: Path, header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
