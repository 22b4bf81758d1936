"""Reads what Slurm's commands print: `sinfo` for partitions, `squeue` for jobs. Plain formats, which every version has.

The letters of its formats mean the same in every version.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from trainfare.errors import ExternalError
from trainfare.model.slurm import SlurmPartition

PARTITIONS_FORMAT = "%R|%a|%l|%D|%c|%m|%G"
"""The columns of `sinfo`: partition, whether it is up, time limit, nodes, CPUs, memory in MiB and GPUs of each node."""
JOBS_FORMAT = "%i|%T|%S|%e|%j|%k|%r"
"""The columns of `squeue`: job, state, start and end (seconds since 1970, by SLURM_TIME_FORMAT), name, comment, reason.
"""

JobPhase = Literal["waits", "starts", "runs", "ends", "ended"]

_PHASES: dict[str, JobPhase] = {
    "PENDING": "waits",
    "REQUEUED": "waits",
    "REQUEUE_HOLD": "waits",
    "REQUEUE_FED": "waits",
    "SPECIAL_EXIT": "waits",
    "RESV_DEL_HOLD": "waits",
    "CONFIGURING": "starts",
    "RUNNING": "runs",
    "RESIZING": "runs",
    "SIGNALING": "runs",
    "COMPLETING": "ends",
    "STAGE_OUT": "ends",
    "COMPLETED": "ended",
    "CANCELLED": "ended",
    "FAILED": "ended",
    "TIMEOUT": "ended",
    "NODE_FAIL": "ended",
    "BOOT_FAIL": "ended",
    "PREEMPTED": "ended",
    "REVOKED": "ended",
    "DEADLINE": "ended",
    "OUT_OF_MEMORY": "ended",
}
"""The meaning of the states of a job for its machines. Suspended and stopped ones are not in it: they do not answer."""

_ENDINGS = {
    "COMPLETED": "ended by itself",
    "CANCELLED": "was cancelled by someone else",
    "FAILED": "failed",
    "TIMEOUT": "reached its time limit",
    "NODE_FAIL": "lost a node",
    "BOOT_FAIL": "lost a node that did not boot",
    "PREEMPTED": "was preempted by another job",
    "DEADLINE": "reached its deadline",
    "OUT_OF_MEMORY": "ran out of memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job of the user, as `squeue` lists it."""

    id: str
    state: str
    name: str
    comment: str
    reason: str
    started: float | None
    """Seconds since 1970; for a job that waits, when it is expected to start."""
    ends: float | None

    @property
    def phase(self) -> JobPhase | None:
        """The meaning of its state; None if it is suspended, or in a state that is not known here."""
        return _PHASES.get(self.state)

    @property
    def is_active(self) -> bool:
        """It waits, or has nodes."""
        return self.phase != "ended"

    @property
    def ending(self) -> str:
        """A sentence about how it ended."""
        how = _ENDINGS.get(self.state, f"ended as {self.state}")
        why = "" if self.reason in ("None", "", "NodeDown") else f" ({self.reason})"
        return f"The job {self.id} {how}{why}."


def parse_jobs(lines: Iterable[str]) -> list[SlurmJob]:
    """The jobs; lines that are something else are left out."""
    found = []
    for line in lines:
        parts = line.split("|", 6)
        if len(parts) == 7:
            number, state, start, end, name, comment, reason = parts
            found.append(
                SlurmJob(
                    id=number,
                    state=state,
                    name=name,
                    comment=comment,
                    reason=reason,
                    started=_moment(start),
                    ends=_moment(end),
                )
            )
    return found


def parse_partitions(cluster: str, lines: Iterable[str]) -> tuple[SlurmPartition, ...]:
    """The partitions that are up; nodes with different GPUs are different kinds."""
    kinds: dict[tuple[str, str | None, int], SlurmPartition] = {}
    for line in lines:
        words = line.strip().split("|", 6)
        if len(words) != 7 or words[1] != "up" or words[3] == "0":
            continue
        name, _, limit, nodes, cpus, memory, gres = words
        gpu, gpus = parse_gres(gres)
        try:
            row = SlurmPartition(
                cluster=cluster,
                partition=name,
                nodes=int(nodes),
                cpus=int(cpus),
                memory_mib=int(memory),
                longest_seconds=parse_limit(limit),
                gpu=gpu,
                gpus=gpus,
            )
        except ValueError as error:
            raise ExternalError(f"The partitions of {cluster} cannot be read: {line!r} ({error}).") from error
        known = kinds.get((name, gpu, gpus))
        kinds[name, gpu, gpus] = _joined(known, row) if known else row
    rows = kinds.values()
    return tuple(_named(row, [other for other in rows if other.partition == row.partition]) for row in rows)


def parse_gres(text: str) -> tuple[str | None, int]:
    """The type and the number of the GPUs in `gpu:a100:4(S:0-1),nvme:1`. Of several types, the first counts."""
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.strip().split(":")
        if words[0] == "gpu":
            count = words[-1] if words[-1].isdigit() else "1"
            kind = words[1] if len(words) > 1 and not words[1].isdigit() else None
            return (kind, int(count)) if int(count) else (None, 0)
    return None, 0


def parse_limit(text: str) -> float | None:
    """A time limit in seconds: `1-00:00:00`, `30:00`; None if there is none."""
    if text in ("infinite", "UNLIMITED", "n/a", ""):
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    while len(parts) < 3:
        parts.insert(0, 0)
    hours, minutes, seconds = parts
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds)


def _joined(one: SlurmPartition, other: SlurmPartition) -> SlurmPartition:
    return replace(
        one,
        nodes=one.nodes + other.nodes,
        cpus=min(one.cpus, other.cpus),
        memory_mib=min(one.memory_mib, other.memory_mib),
    )


def _named(row: SlurmPartition, same: list[SlurmPartition]) -> SlurmPartition:
    """The row with the name of its kind, if its partition has several."""
    if len(same) == 1:
        return row
    kind = "cpu" if not row.gpus else row.gpu or "gpu"
    if sum(other.gpu == row.gpu and bool(other.gpus) == bool(row.gpus) for other in same) > 1:
        kind = f"{kind}x{row.gpus}"
    return replace(row, kind=kind)


def _moment(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # N/A
        return None
