"""The cost and the measures of a schedule: the one place where schedules are costed.

    rent      = Σ rentals   usd_per_second · (end - start)       the complete node, from being rented to being released
    lateness  = Σ jobs      late_usd_per_second · (end - deadline)⁺
    total     = rent + lateness

A job that has not ended counts no lateness and enters no mean.
"""

import math
from itertools import groupby, pairwise

import numpy as np

from trainfare.model.schedule import Allocation, Schedule, ScheduleOutcome
from trainfare.scheduler.execution import time_tolerance_seconds


def evaluate(schedule: Schedule) -> ScheduleOutcome:
    """All measures of one schedule; they are zero for a schedule without jobs."""
    types = {each.name: each for each in schedule.fleet.types}
    paid = [(types[rental.type], rental.end_seconds - rental.start_seconds) for rental in schedule.rentals]
    rental_usd = math.fsum(node_type.usd_per_second * seconds for node_type, seconds in paid)
    gpu_seconds = math.fsum(node_type.gpus * seconds for node_type, seconds in paid)
    worked = math.fsum(
        len(each.nodes) * each.gpus * max(0.0, each.end_seconds - each.work_start_seconds)
        for each in schedule.allocations
    )
    jobs = {job.id: job for job in schedule.jobs}
    late = [(jobs[name], max(0.0, end - jobs[name].deadline_seconds)) for name, end in schedule.ended_seconds]
    tardiness_usd = math.fsum(job.late_usd_per_second * seconds for job, seconds in late)
    completions = [end - jobs[name].submitted_seconds for name, end in schedule.ended_seconds]
    migrations, preemptions = _migrations_and_preemptions(schedule.allocations)
    return ScheduleOutcome(
        policy=schedule.policy,
        jobs=len(schedule.jobs),
        total_usd=rental_usd + tardiness_usd,
        rental_usd=rental_usd,
        tardiness_usd=tardiness_usd,
        tardiness_seconds=math.fsum(seconds for _, seconds in late),
        late_jobs=sum(seconds > time_tolerance_seconds(job.deadline_seconds) for job, seconds in late),
        makespan_seconds=_makespan_seconds(schedule),
        mean_completion_seconds=math.fsum(completions) / max(len(completions), 1),
        p99_completion_seconds=_quantile(completions, 0.99),
        node_hours=math.fsum(seconds for _, seconds in paid) / 3600,
        gpu_use=worked / gpu_seconds if gpu_seconds else 0.0,
        migrations=migrations,
        preemptions=preemptions,
        reclaims=sum(rental.reclaimed for rental in schedule.rentals),
        decisions=len(schedule.decision_seconds),
        decision_p50_seconds=_quantile(schedule.decision_seconds, 0.5),
        decision_p99_seconds=_quantile(schedule.decision_seconds, 0.99),
        worst_gap=max(schedule.gaps, default=None),
    )


def _makespan_seconds(schedule: Schedule) -> float:
    if not schedule.ended_seconds:
        return 0.0
    return max(end for _, end in schedule.ended_seconds) - min(job.submitted_seconds for job in schedule.jobs)


def _quantile(values: list[float] | tuple[float, ...], q: float) -> float:
    return float(np.quantile(values, q)) if values else 0.0


def _migrations_and_preemptions(allocations: tuple[Allocation, ...]) -> tuple[int, int]:
    """The number of migrations (work that had begun continues on other nodes, or with another number of GPUs) and of
    preemptions (the job waits between two allocations)."""
    migrations = preemptions = 0
    ordered = sorted(allocations, key=lambda each: (each.job, each.start_seconds, each.end_seconds))
    for _, of_job in groupby(ordered, key=lambda each: each.job):
        for before, after in pairwise(of_job):
            migrations += after.done_before > 0 and (before.nodes, before.gpus) != (after.nodes, after.gpus)
            preemptions += after.start_seconds > before.end_seconds
    return migrations, preemptions
