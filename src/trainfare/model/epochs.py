"""How many epochs a training needs, as one rule sees it; a refusal is such an answer too."""

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
"""Where the number comes from: asked for, written in the program, its early stopping, its learning rates, the curve
that has come to rest, the curve so far, runs at other batch sizes, one run with the noise of its gradient, the curve up
to a value that is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsAnswer:
    """So many epochs, between `low` and `high` with 90 % confidence; `why` in one sentence.

    `value` is None where only the range can be told. All three are None in a refusal: `why` is then its reason.
    """

    rule: EpochsRule
    why: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    batch_size: int | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text(why=self.why)
        require_positive(value=self.value, low=self.low, high=self.high, batch_size=self.batch_size)
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must both be there, or neither")
        if self.low is None or self.high is None:
            if self.value is not None:
                raise ValueError("a value needs its low and its high")
        elif not self.low <= (self.low if self.value is None else self.value) <= self.high:
            raise ValueError(f"{self.value} is not between {self.low} and {self.high}")

    @property
    def refused(self) -> bool:
        return self.low is None

    @property
    def whole(self) -> int | None:
        """A number of epochs to train: at least one."""
        return None if self.value is None else max(1, round(self.value))
