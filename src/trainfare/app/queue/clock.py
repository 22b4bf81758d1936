"""What second 0 of a queue is: to policies its start, from which they reckon how often jobs come."""

from trainfare.model.queue import Job

CALENDAR_SECONDS = 1e5
"""A queue whose first job comes later than a day counts from another zero, as Unix time does."""


def start_seconds(jobs: tuple[Job, ...]) -> float:
    """When the queue starts by its own clock: at 0, but for one that counts by the calendar at its first submission."""
    first = min((job.submitted_seconds for job in jobs), default=0.0)
    return first if first > CALENDAR_SECONDS else 0.0
