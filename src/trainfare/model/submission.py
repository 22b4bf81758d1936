"""A training that a user has submitted to the team's queue, as it was requested."""

from dataclasses import dataclass
from datetime import datetime

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text, require_unicode
from trainfare.model.reason import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A training to run, its deadline, and the price of lateness.

    It states the request only: its time on each machine is estimated again whenever the queue is planned. A training
    that ends h hours late costs `late_usd_per_hour`·h; if that is zero, missing the deadline costs nothing.
    """

    id: str
    profile_ids: tuple[str, ...]
    """Profiles of one program, the leading one first."""
    program: str
    """The name of the program for people."""
    submitted_at: datetime
    epochs: int | float | None = None
    """The number of epochs; None takes the number that its program and its profile give."""
    steps: int | None = None
    """The number of iterations in all, instead of epochs."""
    tokens: float | None = None
    """The number of tokens in all, instead of epochs."""
    samples: int | None = None
    """The samples of an epoch, and"""
    profiled_batch_size: int | None = None
    """the batch size of the profile, and"""
    iterations_per_epoch: int | None = None
    """the iterations of an epoch: stated by the user where the profile does not know them."""
    most_gpus: int | None = None
    """The most GPUs of one machine that it can use. None: one, or all if a profile has run on several."""
    deadline_at: datetime | None = None
    late_usd_per_hour: float = 0.0
    user: str = ""

    def __post_init__(self) -> None:
        require_text(id=self.id, program=self.program)
        if not self.profile_ids:
            raise ValueError("profile_ids must not be empty")
        for profile_id in self.profile_ids:
            require_text(profile_id=profile_id)
        if len(set(self.profile_ids)) < len(self.profile_ids):
            raise ValueError(f"profile_ids must not name a profile twice, got {', '.join(self.profile_ids)}")
        require_unicode(user=self.user)
        require_aware(submitted_at=self.submitted_at)
        require_positive(
            epochs=self.epochs,
            steps=self.steps,
            tokens=self.tokens,
            samples=self.samples,
            profiled_batch_size=self.profiled_batch_size,
            iterations_per_epoch=self.iterations_per_epoch,
            most_gpus=self.most_gpus,
        )
        require_not_negative(late_usd_per_hour=self.late_usd_per_hour)
        if self.deadline_at is None:
            if self.late_usd_per_hour:
                raise ValueError("late_usd_per_hour needs a deadline_at to be late from")
            return
        require_aware(deadline_at=self.deadline_at)
        if self.deadline_at <= self.submitted_at:
            raise ValueError(f"deadline_at must lie after submitted_at, got {self.deadline_at.isoformat()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """A submission that was put into the queue, with the assumptions behind it."""

    submission: Submission
    remarks: tuple[Reason, ...]
