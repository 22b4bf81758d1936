"""Limits of what can be scheduled: ranges in which dollars and seconds add up exactly, and jobs that can never run.

A job beyond these limits is excluded with a reason, and the others are scheduled. Machines and options beyond them are
a UsageError. Nothing that can be rented comes near the limits.
"""

import math
from dataclasses import replace

from trainfare.errors import Remedy, UsageError
from trainfare.model.queue import ExcludedJob, Instance, Job, NodeType, Slot
from trainfare.model.reason import Reason
from trainfare.units import format_count, plural

MIN_SECONDS, MAX_SECONDS = 1e-3, 1e10
"""A thousandth of a second, and 300 years; Unix time is within."""
MAX_LATE_USD_PER_SECOND = 1e6
MIN_USD_PER_HOUR, MAX_USD_PER_HOUR = 1e-6, 1e6
"""The price of a node."""
MAX_LOG_ERROR = 2.0
"""Predictions are wrong by a factor of 7."""
MAX_GPUS = 256
"""GPUs of a node; the largest on the market has 72."""
MAX_RECLAIMS_PER_HOUR = 3600.0
MAX_NODES = 100_000
MAX_JOBS = 1_000_000
"""Jobs of a generated queue."""
MAX_TICKS = 1e6
"""The most decisions that a tick may require."""


def exclude_impossible_jobs(instance: Instance, nodes: int) -> tuple[Instance, tuple[ExcludedJob, ...]]:
    """The queue with the jobs that can run on `nodes` nodes, and the others with their reasons."""
    _require_machines(instance.types, instance.slots)
    capacity = _FleetCapacity(instance, nodes)
    included, excluded = [], []
    for job, seconds in zip(instance.jobs, instance.actual_seconds, strict=True):
        reason = _out_of_range(job, seconds) or capacity.why_impossible(job)
        if reason is None:
            included.append((job, seconds))
        else:
            excluded.append(ExcludedJob(job=job.id, reason=reason))
    if not excluded:
        return instance, ()
    return (
        replace(
            instance,
            jobs=tuple(job for job, _ in included),
            true_seconds=tuple(seconds for _, seconds in included) if instance.true_seconds else (),
        ),
        tuple(excluded),
    )


def _require_machines(types: tuple[NodeType, ...], slots: tuple[Slot, ...]) -> None:
    for each in types:
        if not MIN_USD_PER_HOUR <= each.usd_per_hour <= MAX_USD_PER_HOUR:
            raise UsageError(
                f"{each.name} costs ${each.usd_per_hour:g} an hour. Prices from ${MIN_USD_PER_HOUR:g} to "
                f"${MAX_USD_PER_HOUR:g} are supported: correct the price."
            )
        if each.gpus > MAX_GPUS:
            raise UsageError(
                f"{each.name} has {each.gpus:g} GPUs. At most {MAX_GPUS} per node are supported: correct the number."
            )
        if each.reclaims_per_hour > MAX_RECLAIMS_PER_HOUR:
            raise UsageError(
                f"{each.name} is reclaimed {each.reclaims_per_hour:g} times an hour, more than once a second: correct "
                "the rate."
            )
    for slot in slots:
        if slot.nodes > MAX_NODES:
            raise UsageError(
                f"a gang has {slot.nodes:g} nodes of {slot.type}. At most {format_count(MAX_NODES)} are supported."
            )


def _out_of_range(job: Job, true_seconds: tuple[float, ...]) -> Reason | None:
    """The number of the job that is out of range, as a reason with the code `value_out_of_range`."""
    finite = [seconds for seconds in (*job.seconds, *true_seconds) if seconds < math.inf]
    for name, value, low, high in (
        ("seconds", min(finite), MIN_SECONDS, MAX_SECONDS),
        ("seconds", max(finite), MIN_SECONDS, MAX_SECONDS),
        ("submitted_seconds", job.submitted_seconds, 0.0, MAX_SECONDS),
        ("deadline_seconds", job.deadline_seconds, -MAX_SECONDS, math.inf),
        ("late_usd_per_second", job.late_usd_per_second, 0.0, MAX_LATE_USD_PER_SECOND),
        ("log_error", job.log_error, 0.0, MAX_LOG_ERROR),
    ):
        if not low <= value <= high:
            limits = {"low": low, "high": high if high < math.inf else None}
            return Reason(topic="why", code="value_out_of_range", values={"name": name, "value": value, **limits})
    return None


class _FleetCapacity:
    """The slots that the fleet can give to one job alone."""

    def __init__(self, instance: Instance, nodes: int) -> None:
        self._nodes = nodes
        self._slots = instance.slots
        self._max_nodes = {
            each.name: nodes if each.max_nodes is None else min(nodes, each.max_nodes) for each in instance.types
        }
        self._quotas = dict(instance.quotas)

    def why_impossible(self, job: Job) -> Reason | None:
        quota = self._quotas.get(job.user)
        slots = [slot for slot, seconds in zip(self._slots, job.seconds, strict=True) if seconds < math.inf]
        if any(self._is_available(slot, quota) for slot in slots):
            return None
        return Reason(
            topic="why",
            code="no_slot_available",
            values={"nodes": self._nodes, "user": job.user, "quota": quota},
        )

    def _is_available(self, slot: Slot, quota: int | None) -> bool:
        within_quota = quota is None or slot.gpus * slot.nodes <= quota
        return within_quota and slot.nodes <= self._max_nodes[slot.type]


def require_nodes(nodes: int) -> None:
    if not 1 <= nodes <= MAX_NODES:
        limit = 1 if nodes < 1 else MAX_NODES
        raise UsageError(
            f"{nodes} nodes cannot be scheduled; from 1 to {format_count(MAX_NODES)} are supported.",
            field="nodes",
            remedies=[Remedy({"nodes": limit})],
        )


def require_seed(seed: int) -> None:
    if seed < 0:
        raise UsageError(f"a seed is 0 or larger, got {seed}.", field="seed")


def require_error(error: float) -> None:
    if not 0 <= error <= MAX_LOG_ERROR:  # NaN neither
        raise UsageError(
            f"the error of predictions must be a number from 0 to {MAX_LOG_ERROR:g}, such as 0.2, got {error:g}.",
            field="error",
        )


def require_tick(tick_seconds: float, instance: Instance, nodes: int) -> None:
    """The tick is not so short that the policy would decide without end."""
    work = math.fsum(job.shortest_seconds for job in instance.jobs) / min(nodes, max(1, len(instance.jobs)))
    if work / tick_seconds > MAX_TICKS:
        raise UsageError(
            f"with a tick of {tick_seconds:g} s the policy decides more than {plural(int(MAX_TICKS), 'time')}. Give a "
            "longer tick, or none to decide at events only.",
            field="tick_seconds",
            remedies=[Remedy({"tick_seconds": math.ceil(work / MAX_TICKS)})],
        )
