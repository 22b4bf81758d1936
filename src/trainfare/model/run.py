"""A Plan being carried out, and the facts observed meanwhile."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from trainfare.model.checks import require_aware, require_not_negative, require_text

ObservedFact = Literal["state", "iteration", "validation", "loss", "spend", "message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt at one Plan. A Run never changes: its state follows from its Observations."""

    id: str
    plan_id: str
    started_at: datetime

    def __post_init__(self) -> None:
        require_text(id=self.id, plan_id=self.plan_id)
        require_aware(started_at=self.started_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One fact about a Run: the `number`-th that was observed."""

    run_id: str
    number: int
    seen_at: datetime
    fact: ObservedFact
    value: float | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        require_text(run_id=self.run_id)
        require_aware(seen_at=self.seen_at)
        require_not_negative(number=self.number)
        if self.value is None and self.text is None:
            raise ValueError("an observation must have a value or a text")
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"value must be finite, got {self.value}")
