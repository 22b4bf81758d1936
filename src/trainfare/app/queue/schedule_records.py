"""What the commands of `trainfare schedule` print with --json, for programs that read us."""

import math
from typing import TYPE_CHECKING, Any

from trainfare.model.queue import Instance, Job
from trainfare.model.schedule import Allocation, Schedule, ScheduleOutcome

if TYPE_CHECKING:
    from trainfare.app.queue.simulate import BoundReport, PolicyComparison, SimulationReport


def simulated_record(found: "SimulationReport") -> dict[str, Any]:
    """The outcome, what became of each job, and what was paid for."""
    return {
        **_in_sum(found),
        "left_out": list(found.left_out),
        "jobs": job_records(found.schedule),
        "rentals": rental_records(found.schedule),
    }


def compared_record(found: "PolicyComparison") -> dict[str, Any]:
    """The outcome of each policy, the cheapest first."""
    first = found.simulated[0]
    return {
        "best": first.outcome.policy,
        "lower_bound_usd": first.bound.usd,
        "policies": [_in_sum(each) for each in found.simulated],
        "skipped": [{"policy": name, "why": why} for name, why in found.skipped],
        "left_out": list(first.left_out),
    }


def bound_record(found: "BoundReport") -> dict[str, Any]:
    return {
        "lower_bound_usd": found.bound.usd,
        "each_job_alone_usd": found.bound.each_usd,
        "job_count": found.jobs,
        "nodes": found.nodes,
        "left_out": list(found.left_out),
    }


def generated_record(instance: Instance, folder: str, *, nodes: int, seed: int) -> dict[str, Any]:
    last = instance.jobs[-1].submitted_seconds
    return {
        "instance": folder,
        "nodes": nodes,
        "seed": seed,
        "job_count": len(instance.jobs),
        "vm_types": [each.name for each in instance.types],
        "slots": len(instance.slots),
        "last_submitted_s": last,
        "mean_arrival_s": last / (len(instance.jobs) - 1) if len(instance.jobs) > 1 else None,
    }


def rental_records(schedule: Schedule) -> list[dict[str, Any]]:
    """Every node that was rented, in the order of their renting: their sum is the rent."""
    kinds = {each.name: each for each in schedule.fleet.types}
    return [
        {
            "node": each.node,
            "vm_type": each.type,
            "vm_gpus": kinds[each.type].gpus,
            "start_s": each.start_seconds,
            "ready_s": each.ready_seconds,
            "end_s": each.end_seconds,
            "reclaimed": each.reclaimed,
            "usd": kinds[each.type].usd_per_second * (each.end_seconds - each.start_seconds),
        }
        for each in schedule.rentals
    ]


def job_records(schedule: Schedule) -> list[dict[str, Any]]:
    """In the order of their submission."""
    ended = dict(schedule.ended_seconds)
    types = {rental.node: rental.type for rental in schedule.rentals}
    allocations: dict[str, list[Allocation]] = {job.id: [] for job in schedule.jobs}
    for allocation in schedule.allocations:
        allocations[allocation.job].append(allocation)
    return [_job_record(job, ended.get(job.id), allocations[job.id], types) for job in schedule.jobs]


def _job_record(job: Job, end: float | None, allocations: list[Allocation], types: dict[int, str]) -> dict[str, Any]:
    late = max(0.0, end - job.deadline_seconds) if end is not None else 0.0
    return {
        "job": job.id,
        "submitted_s": job.submitted_seconds,
        "started_s": allocations[0].start_seconds if allocations else None,
        "ended_s": end,
        "deadline_s": finite(job.deadline_seconds),
        "late_s": late,
        "late_usd": late * job.late_usd_per_second,
        "stretches": [
            {
                "start_s": each.start_seconds,
                "works_from_s": each.work_start_seconds,
                "end_s": each.end_seconds,
                "vm_type": types[each.nodes[0]],
                "nodes": list(each.nodes),
                "gpus": each.gpus,
                "done_before": each.done_before,
                "done_after": each.done_after,
            }
            for each in allocations
        ],
    }


def _in_sum(found: "SimulationReport") -> dict[str, Any]:
    delays = found.schedule.delays
    return {
        "policy": found.outcome.policy,
        "mode": found.mode,
        "nodes": found.schedule.fleet.nodes,
        **outcome_record(found.outcome),
        "lower_bound_usd": found.bound.usd,
        "gap": found.gap,
        "boot_s": delays.boot_seconds,
        "checkpoint_s": delays.checkpoint_seconds,
        "restart_s": delays.restart_seconds,
        "checkpoint_every_s": finite(delays.checkpoint_every_seconds),
    }


def finite(number: float) -> float | None:
    """JSON has no infinity."""
    return number if math.isfinite(number) else None


def outcome_record(found: ScheduleOutcome) -> dict[str, Any]:
    """Seconds end in `_s`, as in the files of an instance."""
    return {
        "job_count": found.jobs,
        "total_usd": found.total_usd,
        "rental_usd": found.rental_usd,
        "tardiness_usd": found.tardiness_usd,
        "tardiness_s": found.tardiness_seconds,
        "late_jobs": found.late_jobs,
        "makespan_s": found.makespan_seconds,
        "mean_completion_s": found.mean_completion_seconds,
        "p99_completion_s": found.p99_completion_seconds,
        "node_hours": found.node_hours,
        "gpu_use": found.gpu_use,
        "moves": found.moves,
        "preemptions": found.preemptions,
        "reclaims": found.reclaims,
        "decisions": found.decisions,
        "decision_p50_s": found.decision_p50_seconds,
        "decision_p99_s": found.decision_p99_seconds,
        "worst_gap": found.worst_gap,
    }
