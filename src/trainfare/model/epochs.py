"""The number of epochs that a training needs according to one rule, or the reason why the rule does not apply."""

from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_positive, require_text

EpochsRule = Literal[
    "you",
    "program",
    "early stopping",
    "schedule",
    "settled",
    "curve",
    "other batch sizes",
    "gradient noise",
    "target",
]
"""The origin of the number, in this order: requested by the user, written in the program, its early stopping, its
learning-rate schedule, a curve that has converged, a curve extrapolated, runs at other batch sizes, one run with the
noise of its gradient, the curve up to a requested value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsAnswer:
    """A number of epochs, between `low` and `high` with 90% confidence, and the reason in one sentence.

    `value` is None if only the range is known. All three are None if the rule does not apply, and `why` says why.
    """

    rule: EpochsRule
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    batch_size: int | None = None
    warnings: tuple[str, ...] = ()
    is_guess: bool = False
    """True if nothing that was measured or stated supports the number: epochs are known at one other batch size only,
    and are assumed to stay the same."""

    def __post_init__(self) -> None:
        require_text(why=self.why)
        require_positive(value=self.value, low=self.low, high=self.high, batch_size=self.batch_size)
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must both be given, or neither")
        if self.low is None or self.high is None:
            if self.value is not None:
                raise ValueError("a value needs its low and its high")
        elif not self.low <= (self.low if self.value is None else self.value) <= self.high:
            raise ValueError(f"{self.value} is not between {self.low} and {self.high}")

    @property
    def refused(self) -> bool:
        """True if the rule gives no number."""
        return self.low is None

    @property
    def rounded(self) -> int | None:
        """The number of epochs to train: an integer of at least one."""
        return None if self.value is None else max(1, round(self.value))
