"""A queue: what waits, and which job runs where and when."""

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from trainfare.model.checks import require_aware, require_positive, require_text
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal
from trainfare.model.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A Program with a Goal, a weight and a deadline, waiting."""

    id: str
    program: Program
    goal: Goal
    submitted_at: datetime
    weight: float = 1.0
    deadline_at: datetime | None = None

    def __post_init__(self) -> None:
        require_text(id=self.id)
        require_positive(weight=self.weight)
        require_aware(submitted_at=self.submitted_at)
        if self.deadline_at is not None:
            require_aware(deadline_at=self.deadline_at)
            if self.deadline_at <= self.submitted_at:
                raise ValueError(f"the deadline of {self.id} is not after its submission")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One job on one candidate from one moment to another."""

    job_id: str
    candidate: Candidate
    starts_at: datetime
    ends_at: datetime

    def __post_init__(self) -> None:
        require_text(job_id=self.job_id)
        require_aware(starts_at=self.starts_at, ends_at=self.ends_at)
        if self.ends_at <= self.starts_at:
            raise ValueError(f"{self.job_id} ends before it starts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which job runs where and when; a job may be moved, but never runs twice at once."""

    made_at: datetime
    assignments: tuple[Assignment, ...]

    def __post_init__(self) -> None:
        require_aware(made_at=self.made_at)
        in_order = sorted(self.assignments, key=lambda a: (a.job_id, a.starts_at))
        for earlier, later in pairwise(in_order):
            if earlier.job_id == later.job_id and later.starts_at < earlier.ends_at:
                raise ValueError(f"{earlier.job_id} runs twice at {later.starts_at.isoformat()}")
