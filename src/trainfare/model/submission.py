"""A training that somebody has put into the queue of a team, as it was asked for."""

from dataclasses import dataclass
from datetime import datetime

from trainfare.model.checks import require_aware, require_not_negative, require_positive, require_text, require_unicode


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is to be trained, by when, and what lateness costs.

    A fact: how long it takes where is believed anew whenever the queue is planned. Late by h hours it costs
    `late_usd_per_hour`·h; of zero, the deadline is a wish that costs nothing to miss.
    """

    id: str
    profile_ids: tuple[str, ...]
    """Profiles of one program, the leading one first."""
    program: str
    """What a person would call it."""
    submitted_at: datetime
    epochs: int | None = None
    """None: what its program and its profile tell."""
    iterations_per_epoch: int | None = None
    """Where the program does not tell."""
    most_gpus: int | None = None
    """GPUs of one machine that it can share its work among; None: one, and all where a profile saw it use several."""
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
            raise ValueError(f"a profile stands twice in {', '.join(self.profile_ids)}")
        require_unicode(user=self.user)
        require_aware(submitted_at=self.submitted_at)
        require_positive(epochs=self.epochs, iterations_per_epoch=self.iterations_per_epoch, most_gpus=self.most_gpus)
        require_not_negative(late_usd_per_hour=self.late_usd_per_hour)
        if self.deadline_at is None:
            if self.late_usd_per_hour:
                raise ValueError("late_usd_per_hour needs a deadline_at to be late from")
            return
        require_aware(deadline_at=self.deadline_at)
        if self.deadline_at <= self.submitted_at:
            raise ValueError(f"deadline_at must lie after submitted_at, got {self.deadline_at.isoformat()}")
