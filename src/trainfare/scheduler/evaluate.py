"""What a schedule came to: the one place where schedules are costed.

    rent      = Σ rentals   usd_per_second · (end - start)       every node whole, from being rented to being given back
    lateness  = Σ jobs      late_usd_per_second · (end - deadline)⁺
    total     = rent + lateness

A job that has not ended is late by nothing yet and counts in no mean.
"""

import math
from itertools import groupby, pairwise

import numpy as np

from trainfare.model.schedule import Outcome, Schedule, Stretch
from trainfare.scheduler.running import rounding_seconds


def outcome(schedule: Schedule) -> Outcome:
    """All measures of one schedule; zeros where nothing was to be done."""
    kinds = {each.name: each for each in schedule.fleet.types}
    paid = [(kinds[rental.type], rental.end_seconds - rental.start_seconds) for rental in schedule.rentals]
    rental_usd = math.fsum(kind.usd_per_second * seconds for kind, seconds in paid)
    gpu_seconds = math.fsum(kind.gpus * seconds for kind, seconds in paid)
    worked = math.fsum(
        len(each.nodes) * each.gpus * max(0.0, each.end_seconds - each.works_from_seconds)
        for each in schedule.stretches
    )
    jobs = {job.id: job for job in schedule.jobs}
    late = [(jobs[name], max(0.0, end - jobs[name].deadline_seconds)) for name, end in schedule.ended_seconds]
    tardiness_usd = math.fsum(job.late_usd_per_second * seconds for job, seconds in late)
    completions = [end - jobs[name].submitted_seconds for name, end in schedule.ended_seconds]
    moves, preemptions = _moves_and_preemptions(schedule.stretches)
    return Outcome(
        policy=schedule.policy,
        jobs=len(schedule.jobs),
        total_usd=rental_usd + tardiness_usd,
        rental_usd=rental_usd,
        tardiness_usd=tardiness_usd,
        tardiness_seconds=math.fsum(seconds for _, seconds in late),
        late_jobs=sum(seconds > rounding_seconds(job.deadline_seconds) for job, seconds in late),
        makespan_seconds=_makespan_seconds(schedule),
        mean_completion_seconds=math.fsum(completions) / max(len(completions), 1),
        p99_completion_seconds=_quantile(completions, 0.99),
        node_hours=math.fsum(seconds for _, seconds in paid) / 3600,
        gpu_use=worked / gpu_seconds if gpu_seconds else 0.0,
        moves=moves,
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


def _moves_and_preemptions(stretches: tuple[Stretch, ...]) -> tuple[int, int]:
    """A move: work that had begun goes on elsewhere, or with other GPUs. A preemption: it waits in between."""
    moves = preemptions = 0
    ordered = sorted(stretches, key=lambda each: (each.job, each.start_seconds, each.end_seconds))
    for _, of_job in groupby(ordered, key=lambda each: each.job):
        for before, after in pairwise(of_job):
            moves += after.done_before > 0 and (before.nodes, before.gpus) != (after.nodes, after.gpus)
            preemptions += after.start_seconds > before.end_seconds
    return moves, preemptions
