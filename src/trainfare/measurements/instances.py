"""A queue to be scheduled, as a folder of tables; so written, the instances of Jahani et al. 2019 are read as they are.

    jobs.csv     job,submitted_s,deadline_s,tardiness_usd_per_s                  and, where wanted: user,log_error
    times.csv    job,vm_type,vm_gpus,vm_usd_per_hour,gpus_used,seconds           and: gpu,nodes,true_seconds,
                                                                                 reclaims_per_hour,most
    quotas.csv   user,gpus                                                       where there are quotas

A line of times.csv is one job on one slot. Where a job has no line for a slot, or `inf` seconds, it cannot run there.
A line without a job and without seconds says no more than that the slot exists. A deadline of `inf`, or none, is none.
Without a column `gpu`, types are of one GPU when every job takes equally long (1e-6) on as many GPUs of either.

What is wrong with one job leaves that job out, with a sentence, and the others go on. What is wrong with the tables
or the machines is an error: nothing that follows could be trusted.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainfare.errors import UsageError
from trainfare.measurements.lines import Line, read_lines
from trainfare.model.queue import Instance, Job, NodeType, Slot

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
"""Column → field of NodeType: what all lines of a type must agree on."""

UNKNOWN = "GPU"
"""Stands for a GPU that nobody names, and begins the name that is made up for it."""

SAME = 1e-6
"""Relative; the published tables have three decimals of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedInstance:
    """What a folder holds, and a sentence for each job of it that cannot be scheduled."""

    instance: Instance
    left_out: tuple[str, ...]


_Times = dict[str, dict[Slot, tuple[float, float]]]
"""job → slot → (seconds as predicted, seconds in truth)"""


def read_instance(folder: Path) -> LoadedInstance:
    """The instance in `folder`, its jobs in the order of their submission."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: name one that holds {JOBS} and {TIMES}.")
    jobs = _job_lines(folder / JOBS)
    lines = read_lines(folder / TIMES, TIME_COLUMNS)
    if not lines:
        raise UsageError(f"{folder / TIMES} has no lines, so no machine is known. Add what jobs take on machines.")
    slots = tuple(dict.fromkeys(map(_slot, lines)))
    types = _types(lines)
    times, bad = _times(lines)
    made = []
    for name in dict.fromkeys((*jobs, *times, *bad)):
        try:
            if name not in jobs:
                raise UsageError(f"{folder / TIMES} has times of it, {folder / JOBS} does not have it. Add it there.")
            if name not in bad:
                made.append(_job(jobs[name], times.get(name, {}), slots))
        except UsageError as error:
            bad[name] = str(error)
    left_out = tuple(f"job {name} is left out: {complaint}" for name, complaint in bad.items())
    if jobs and not made:
        raise UsageError(f"no job of {folder} can be scheduled: {left_out[0]}")
    made.sort(key=lambda each: each[0].submitted_seconds)
    instance = Instance(
        types=_with_gpus(types, times),
        slots=slots,
        jobs=tuple(job for job, _ in made),
        true_seconds=tuple(true for _, true in made) if any(job.seconds != true for job, true in made) else (),
        quotas=_quotas(folder / QUOTAS),
    )
    return LoadedInstance(instance=instance, left_out=left_out)


def _job_lines(path: Path) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for line in read_lines(path, JOB_COLUMNS):
        name = line.text("job")
        if name in found:
            raise line.wrong("job", f"{name} stands in line {found[name].number} too", "Give each job an id of its own")
        found[name] = line
    return found


def _slot(line: Line) -> Slot:
    slot = Slot(line.text("vm_type"), line.count("gpus_used"), line.count("nodes", 1))
    has = line.count("vm_gpus")
    if slot.gpus > has:
        raise line.wrong("gpus_used", f"a {slot.type} has {has}, not {slot.gpus}", f"Give at most {has}")
    if slot.nodes > 1 and slot.gpus < has:
        raise line.wrong("gpus_used", f"a job on {slot.nodes} nodes takes them whole", f"Give {has}")
    return slot


def _types(lines: Sequence[Line]) -> tuple[NodeType, ...]:
    """As the first line of each tells; a later line that tells otherwise is an error. `gpu` may still be missing."""
    first: dict[str, tuple[Line, NodeType]] = {}
    for line in lines:
        most = line.count("most", -1, least=-1)
        name = line.text("vm_type")
        new = NodeType(
            name=name,
            gpu=line.text("gpu", UNKNOWN),
            gpus=line.count("vm_gpus"),
            usd_per_hour=line.finite("vm_usd_per_hour"),
            reclaims_per_hour=line.not_negative("reclaims_per_hour", 0.0),
            max_nodes=None if most < 0 else most,
        )
        before, known = first.setdefault(name, (line, new))
        for column, field in TYPE_FIELDS.items():
            if (one := getattr(new, field)) != (other := getattr(known, field)):
                what = f"for {name} {one} stands here and {other} in line {before.number}"
                raise line.wrong(column, what, "Make them agree, or give the machines two names")
    return tuple(known for _, known in first.values())


def _times(lines: Sequence[Line]) -> tuple[_Times, dict[str, str]]:
    """By job and slot, and what is wrong with the jobs for which that cannot be told."""
    times: _Times = {}
    bad: dict[str, str] = {}
    seen: dict[tuple[str, Slot], int] = {}
    for line in lines:
        name, slot = line.text("job", ""), _slot(line)
        if (name, slot) in seen:
            what = f"the same job, type and GPUs stand in line {seen[name, slot]} too"
            raise line.wrong("job", what, "Leave one of them")
        seen[name, slot] = line.number
        if not name:
            if line.text("seconds", ""):
                raise line.wrong("job", "whose seconds these are is not told", "Name the job, or leave seconds empty")
            continue
        try:
            times.setdefault(name, {})[slot] = _seconds(line)
        except UsageError as error:
            bad.setdefault(name, str(error))
    return {name: times[name] for name in times if name not in bad}, bad


def _seconds(line: Line) -> tuple[float, float]:
    seconds = line.positive("seconds")
    true = line.positive("true_seconds", seconds)
    if math.isinf(seconds) != math.isinf(true):
        raise line.wrong("true_seconds", f"{true:g}, and {seconds:g} are predicted", "Either it can run there or not")
    return seconds, true


def _job(
    line: Line, times: Mapping[Slot, tuple[float, float]], slots: tuple[Slot, ...]
) -> tuple[Job, tuple[float, ...]]:
    if not any(math.isfinite(seconds) for seconds, _ in times.values()):
        raise line.wrong("job", "it fits on no machine", f"Add to {TIMES} what it takes somewhere")
    deadline = line.real("deadline_s", math.inf)
    if deadline == -math.inf:
        raise line.wrong("deadline_s", "before all time", "Give seconds from the start of the queue, or inf for none")
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
    """A type of which no GPU is told has that of the first one of which none is told and with which its times agree."""
    named: list[NodeType] = []
    for each in types:
        if each.gpu == UNKNOWN:
            alike = (other.gpu for other in named if other.gpu.startswith(UNKNOWN) and _agree(each, other, times))
            named.append(replace(each, gpu=next(alike, f"{UNKNOWN} of {each.name}")))
        else:
            named.append(each)
    return tuple(named)


def _agree(one: NodeType, other: NodeType, times: _Times) -> bool:
    """Every job takes equally long on as many GPUs of either, wherever both times are told, and somewhere they are."""
    pairs = [
        (of_job[slot][0], of_job[like][0])
        for of_job in times.values()
        for slot in of_job
        if slot.type == one.name and (like := replace(slot, type=other.name)) in of_job
    ]
    return bool(pairs) and all(math.isclose(a, b, rel_tol=SAME) for a, b in pairs)


def _quotas(path: Path) -> tuple[tuple[str, int], ...]:
    if not path.exists():
        return ()
    found: dict[str, int] = {}
    for line in read_lines(path, QUOTA_COLUMNS):
        user = line.text("user")
        if user in found:
            raise line.wrong("user", f"{user} has a quota already", "Leave one")
        found[user] = line.count("gpus", least=0)
    return tuple(found.items())


def write_instance(folder: Path, instance: Instance) -> None:
    """As `read_instance` reads it, to the last digit. The folder is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    true = instance.true_seconds or tuple(job.seconds for job in instance.jobs)
    _write(
        folder / JOBS,
        (*JOB_COLUMNS, "user", "log_error"),
        (
            (job.id, job.submitted_seconds, job.deadline_seconds, job.late_usd_per_second, job.user, job.log_error)
            for job in instance.jobs
        ),
    )
    rows: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
        (job.id, job.seconds, of_job) for job, of_job in zip(instance.jobs, true, strict=True)
    ]
    nothing = ("",) * len(instance.slots)
    types = {each.name: each for each in instance.types}
    _write(
        folder / TIMES,
        (*TIME_COLUMNS, "gpu", "nodes", "true_seconds", "reclaims_per_hour", "most"),
        (
            _time_row(name, types[slot.type], slot, seconds[place], of_job[place])
            for name, seconds, of_job in rows or [("", nothing, nothing)]
            for place, slot in enumerate(instance.slots)
        ),
    )
    (folder / QUOTAS).unlink(missing_ok=True)
    if instance.quotas:
        _write(folder / QUOTAS, QUOTA_COLUMNS, instance.quotas)


def _time_row(job: str, kind: NodeType, slot: Slot, seconds: object, true_seconds: object) -> tuple[object, ...]:
    machine = (kind.name, kind.gpus, kind.usd_per_hour, slot.gpus)
    most = "" if kind.max_nodes is None else kind.max_nodes
    return (job, *machine, seconds, kind.gpu, slot.nodes, true_seconds, kind.reclaims_per_hour, most)


def _write(path: Path, header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
