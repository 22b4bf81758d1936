"""A goal, and the plan that is recommended for it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_positive, require_text
from trainfare.model.estimate import Estimate
from trainfare.model.reason import Reason
from trainfare.model.split import SplitPlan
from trainfare.model.spot import SpotRisk

GoalKind = Literal["cheapest", "fastest", "weighted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A validation metric and the value that the training must reach: `accuracy` of 0.9."""

    metric: str
    value: float

    def __post_init__(self) -> None:
        require_text(metric=self.metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The objective to minimise, cost, time or a weighted sum of the two, and the limits to respect.

    A candidate is within a limit if it is so with the stated confidence: P(time ≤ deadline) ≥ confidence.
    """

    kind: GoalKind = "cheapest"
    weight_time: float | None = None
    """w in w·time/least time + (1 − w)·cost/least cost; set only if `kind` is weighted."""
    deadline_seconds: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9
    value_of_time_usd_per_hour: float | None = None
    """The cost of an hour of waiting to the user: the cheapest candidate is then the one with the least
    cost + time · this value. A weighted goal with it has the weights that follow from it."""
    target: Target | None = None
    """Train until this value is reached, instead of for a number of epochs."""

    def __post_init__(self) -> None:
        require_positive(
            deadline_seconds=self.deadline_seconds,
            budget_usd=self.budget_usd,
            value_of_time_usd_per_hour=self.value_of_time_usd_per_hour,
        )
        if self.kind == "fastest" and self.value_of_time_usd_per_hour is not None:
            raise ValueError("value_of_time_usd_per_hour must be given for the goal cheapest, not for the fastest")
        if (self.kind == "weighted") != (self.weight_time is not None):
            raise ValueError("weight_time must be given for the goal weighted, and for no other")
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
    """The number of candidates that were estimated."""
    reasons: tuple[Reason, ...]
    front: tuple[Estimate, ...] = ()
    """The Pareto front in time and cost of the eligible candidates, the fastest first. Old plans have none."""
    knee: Estimate | None = None
    """The point of the front from which more speed costs much more."""
    split: SplitPlan | None = None
    """A plan to train the first epochs on one machine and the rest on another. `chosen` is then the best single
    machine, or the machine of the first segment if no single machine is within the limits."""
    spot_risk: SpotRisk | None = None
    """The risk of missing the deadline, if the chosen machine is on spot and there is a deadline."""
    spot_fallbacks: tuple[Estimate, ...] = ()
    """If the chosen machine is on spot: the same one on spot in other regions, and on demand in the cheapest."""
    here: Estimate | None = None
    """The machine at hand, chosen or not; None if the profiles say nothing about it or the scope leaves it out."""
    other_batch_size: Estimate | None = None
    """The best candidate at a batch size whose number of epochs is a guess, if it would be better than the chosen one:
    it is offered and never chosen."""

    def __post_init__(self) -> None:
        require_text(id=self.id)
        require_aware(made_at=self.made_at)
        require_positive(considered=self.considered)
        if not self.reasons:
            raise ValueError("a plan needs at least one reason")
        if self.chosen in self.runners_up:
            raise ValueError("the chosen estimate cannot be its own runner-up")
        if self.considered < 1 + len(self.runners_up):
            raise ValueError(f"{self.considered} considered, but {1 + len(self.runners_up)} are named")
        if self.knee is not None and self.knee not in self.front:
            raise ValueError("the knee must be on the front")
