"""What a recommendation is asked for."""

from dataclasses import dataclass
from typing import TypedDict

from trainfare.app.recommending.workload import require_epochs
from trainfare.errors import UsageError
from trainfare.model.bill import Overheads
from trainfare.model.plan import Goal
from trainfare.model.scope import Scope
from trainfare.model.split import EarlyTarget

EVERYTHING = Scope()


class Asked(TypedDict, total=False):
    """The fields of a Question that `recommend` takes as they are."""

    scope: Scope
    epochs: int | None
    early: EarlyTarget | None
    split: bool
    baseline: str | None
    iterations_per_epoch: int | None
    overheads: Overheads | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a recommendation is asked for.

    `scope` says what may be chosen from: providers, machines, clusters, batch sizes, markets. With `split` the training
    may begin on one machine and end on another; `early` is a figure that is wanted before it ends. `baseline` is a
    machine to hold the chosen one against.
    """

    goal: Goal
    scope: Scope = EVERYTHING
    epochs: int | None = None
    early: EarlyTarget | None = None
    split: bool = False
    baseline: str | None = None
    iterations_per_epoch: int | None = None
    overheads: Overheads | None = None

    def __post_init__(self) -> None:
        require_epochs(self.epochs)
        if self.epochs is not None and self.goal.target is not None:
            raise UsageError("--epochs and --target both say how long to train: give one of them.")
