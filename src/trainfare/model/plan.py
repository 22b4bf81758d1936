"""What was asked for, and what is recommended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_positive, require_text
from trainfare.model.estimate import Estimate
from trainfare.model.split import SplitPlan
from trainfare.model.spot import SpotRisk

GoalKind = Literal["cheapest", "fastest", "weighted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure of the validation that the training is to reach: `accuracy` of 0.9."""

    metric: str
    value: float

    def __post_init__(self) -> None:
        require_text(metric=self.metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the user wants least of, money, time or a weighted sum of the two, and within which limits.

    A limit holds when it does so at the upper end of the interval that has the stated confidence.
    """

    kind: GoalKind = "cheapest"
    weight_time: float | None = None
    """w of w·time/least time + (1 − w)·cost/least cost; only where the kind is weighted."""
    deadline_seconds: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9
    target: Target | None = None
    """Trained until this is reached, in place of a number of epochs."""

    def __post_init__(self) -> None:
        require_positive(deadline_seconds=self.deadline_seconds, budget_usd=self.budget_usd)
        if (self.kind == "weighted") != (self.weight_time is not None):
            raise ValueError("a weight of time belongs to the goal weighted, and to no other")
        if self.weight_time is not None and not 0 <= self.weight_time <= 1:
            raise ValueError(f"weight_time must lie between 0 and 1, got {self.weight_time}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The chosen Estimate, the runners-up in order, the Pareto front and the reasons."""

    id: str
    made_at: datetime
    goal: Goal
    chosen: Estimate
    runners_up: tuple[Estimate, ...]
    considered: int
    """How many candidates were estimated."""
    reasons: tuple[str, ...]
    topics: tuple[str, ...] = ()
    """What each reason is about: `why`, `sure?`, …; none in plans of before."""
    front: tuple[Estimate, ...] = ()
    """Of all that may be chosen, those that nothing else beats in time and in cost, the fastest first. Plans of before
    there were fronts have none."""
    knee: Estimate | None = None
    """Of the front, where a little more speed begins to cost much."""
    legs: SplitPlan | None = None
    """Where the training is to begin on one machine and end on another. `chosen` is then the best machine alone, or
    the first leg's where no machine alone keeps the limits."""
    spot_risk: SpotRisk | None = None
    """Where the chosen machine is on spot and there is a deadline."""

    def __post_init__(self) -> None:
        require_text(id=self.id)
        require_aware(made_at=self.made_at)
        require_positive(considered=self.considered)
        if not self.reasons:
            raise ValueError("a plan without a reason is a rank")
        if self.topics and len(self.topics) != len(self.reasons):
            raise ValueError(f"{len(self.reasons)} reasons have {len(self.topics)} topics")
        if self.chosen in self.runners_up:
            raise ValueError("the chosen estimate cannot be its own runner-up")
        if self.considered < 1 + len(self.runners_up):
            raise ValueError(f"{self.considered} considered, but {1 + len(self.runners_up)} are named")
        if self.knee is not None and self.knee not in self.front:
            raise ValueError("the knee is one of the front")
