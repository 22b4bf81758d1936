"""Simulated schedules, comparisons of policies and bounds as JSON records and sentences."""

import math
from collections.abc import Iterable
from typing import Any

from trainfare.model.queue import ExcludedJob, Instance, Job
from trainfare.model.schedule import Allocation, Schedule, ScheduleOutcome
from trainfare.scheduler.simulation.report import BoundReport, PolicyComparison, SimulationReport, SkippedPolicy
from trainfare.scheduler.simulation.trace_import import TraceImport
from trainfare.views.reasons import python_arguments, sentence
from trainfare.views.sentences import SpellArguments


def excluded_sentence(excluded: ExcludedJob, spell: SpellArguments = python_arguments) -> str:
    """The name of the job, and why it is left out."""
    return f"job {excluded.job} is left out: {sentence(excluded.reason, spell)}"


def excluded_sentences(excluded: Iterable[ExcludedJob], spell: SpellArguments = python_arguments) -> list[str]:
    return [excluded_sentence(each, spell) for each in excluded]


def skipped_sentence(skipped: SkippedPolicy, spell: SpellArguments = python_arguments) -> str:
    """The name of the policy, and why there is no report of it."""
    return f"{skipped.policy} was skipped: {sentence(skipped.reason, spell)}"


def simulation_record(report: SimulationReport, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    """The outcome, the allocations of each job, and the rentals."""
    return {
        **_summary_record(report),
        "left_out": excluded_sentences(report.excluded, spell),
        "jobs": job_records(report.schedule),
        "rentals": rental_records(report.schedule),
    }


def comparison_record(comparison: PolicyComparison, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    """The outcome of each policy, the cheapest first."""
    best = comparison.reports[0]
    return {
        "best": best.outcome.policy,
        "lower_bound_usd": best.bound.usd,
        "policies": [_summary_record(each) for each in comparison.reports],
        "skipped": [{"policy": each.policy, "why": sentence(each.reason, spell)} for each in comparison.skipped],
        "left_out": excluded_sentences(best.excluded, spell),
    }


def bound_record(report: BoundReport, spell: SpellArguments = python_arguments) -> dict[str, Any]:
    return {
        "lower_bound_usd": report.bound.usd,
        "each_job_alone_usd": report.bound.alone_usd,
        "job_count": report.jobs,
        "nodes": report.nodes,
        "left_out": excluded_sentences(report.excluded, spell),
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


def trace_import_record(
    found: TraceImport, folder: str, *, seed: int, spell: SpellArguments = python_arguments
) -> dict[str, Any]:
    return {
        "instance": folder,
        "seed": seed,
        "job_count": len(found.instance.jobs),
        "vm_types": [each.name for each in found.instance.types],
        "slots": len(found.instance.slots),
        "last_submitted_s": found.last_seconds,
        "nodes": found.nodes,
        "load": found.load,
        "left_out": excluded_sentences(found.excluded, spell),
    }


def rental_records(schedule: Schedule) -> list[dict[str, Any]]:
    """Every rented node, in the order of renting; the sum of their dollars is the rent."""
    types = {each.name: each for each in schedule.fleet.types}
    return [
        {
            "node": each.node,
            "vm_type": each.type,
            "vm_gpus": types[each.type].gpus,
            "start_s": each.start_seconds,
            "ready_s": each.ready_seconds,
            "end_s": each.end_seconds,
            "reclaimed": each.reclaimed,
            "usd": types[each.type].usd_per_second * (each.end_seconds - each.start_seconds),
        }
        for each in schedule.rentals
    ]


def job_records(schedule: Schedule) -> list[dict[str, Any]]:
    """The jobs in the order of their submission."""
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


def _summary_record(report: SimulationReport) -> dict[str, Any]:
    delays = report.schedule.delays
    return {
        "policy": report.outcome.policy,
        "mode": report.mode,
        "nodes": report.schedule.fleet.nodes,
        **outcome_record(report.outcome),
        "lower_bound_usd": report.bound.usd,
        "gap": report.gap,
        "boot_s": delays.boot_seconds,
        "checkpoint_s": delays.checkpoint_seconds,
        "restart_s": delays.restart_seconds,
        "checkpoint_every_s": finite(delays.checkpoint_every_seconds),
    }


def finite(number: float) -> float | None:
    """The number, or None if it is infinite: JSON has no infinity."""
    return number if math.isfinite(number) else None


def outcome_record(outcome: ScheduleOutcome) -> dict[str, Any]:
    """All measures; keys of seconds end in `_s`, as in the files of an instance."""
    return {
        "job_count": outcome.jobs,
        "total_usd": outcome.total_usd,
        "rental_usd": outcome.rental_usd,
        "tardiness_usd": outcome.tardiness_usd,
        "tardiness_s": outcome.tardiness_seconds,
        "late_jobs": outcome.late_jobs,
        "makespan_s": outcome.makespan_seconds,
        "mean_completion_s": outcome.mean_completion_seconds,
        "p99_completion_s": outcome.p99_completion_seconds,
        "node_hours": outcome.node_hours,
        "gpu_use": outcome.gpu_use,
        "moves": outcome.migrations,
        "preemptions": outcome.preemptions,
        "reclaims": outcome.reclaims,
        "decisions": outcome.decisions,
        "decision_p50_s": outcome.decision_p50_seconds,
        "decision_p99_s": outcome.decision_p99_seconds,
        "worst_gap": outcome.worst_gap,
    }
