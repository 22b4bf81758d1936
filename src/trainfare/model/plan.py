"""What was asked for, and what is recommended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_positive, require_text
from trainfare.model.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the user wants least of: money or time."""

    kind: Literal["cheapest", "fastest"] = "cheapest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The chosen Estimate, the runners-up in order, and the reasons."""

    id: str
    made_at: datetime
    goal: Goal
    chosen: Estimate
    runners_up: tuple[Estimate, ...]
    considered: int
    """How many candidates were estimated."""
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        require_text(id=self.id)
        require_aware(made_at=self.made_at)
        require_positive(considered=self.considered)
        if not self.reasons:
            raise ValueError("a plan without a reason is a rank")
        if self.chosen in self.runners_up:
            raise ValueError("the chosen estimate cannot be its own runner-up")
        if self.considered < 1 + len(self.runners_up):
            raise ValueError(f"{self.considered} considered, but {1 + len(self.runners_up)} are named")
