"""What second 0 of a queue is: to policies its start, from which they reckon how often jobs come."""

from dataclasses import replace

from trainfare.model.queue import Instance, Job
from trainfare.model.schedule import Schedule

CALENDAR_SECONDS = 1e5
"""A queue whose first job comes later than a day counts from another zero, as Unix time does."""


def start_seconds(jobs: tuple[Job, ...]) -> float:
    """When the queue starts by its own clock: at 0, but for one that counts by the calendar at its first submission."""
    first = min((job.submitted_seconds for job in jobs), default=0.0)
    return first if first > CALENDAR_SECONDS else 0.0


def instance_since(instance: Instance, seconds: float) -> Instance:
    """The same queue, its second 0 so much later."""
    return replace(instance, jobs=_since(instance.jobs, seconds)) if seconds else instance


def schedule_since(schedule: Schedule, seconds: float) -> Schedule:
    """The same schedule, its second 0 so much later; what was submitted before that, at 0."""
    if not seconds:
        return schedule
    return replace(
        schedule,
        jobs=_since(schedule.jobs, seconds),
        rentals=tuple(
            replace(
                rental,
                start_seconds=rental.start_seconds - seconds,
                ready_seconds=rental.ready_seconds - seconds,
                end_seconds=rental.end_seconds - seconds,
            )
            for rental in schedule.rentals
        ),
        stretches=tuple(
            replace(
                stretch,
                start_seconds=stretch.start_seconds - seconds,
                works_from_seconds=stretch.works_from_seconds - seconds,
                end_seconds=stretch.end_seconds - seconds,
            )
            for stretch in schedule.stretches
        ),
        ended_seconds=tuple((name, moment - seconds) for name, moment in schedule.ended_seconds),
    )


def _since(jobs: tuple[Job, ...], seconds: float) -> tuple[Job, ...]:
    return tuple(
        replace(
            job,
            submitted_seconds=max(0.0, job.submitted_seconds - seconds),
            deadline_seconds=job.deadline_seconds - seconds,
        )
        for job in jobs
    )
