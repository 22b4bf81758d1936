"""What a recommendation is asked for, by Python, the command line or the server."""

from dataclasses import dataclass

from trainfare.app.stated import TOTALS, StatedLength
from trainfare.errors import UsageError
from trainfare.model.bill import Overheads
from trainfare.model.plan import Goal
from trainfare.model.scope import Scope
from trainfare.model.split import EarlyTarget

EVERYTHING = Scope()
"""The default scope: no restriction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments of a recommendation. Raises UsageError if they contradict each other."""

    goal: Goal
    scope: Scope = EVERYTHING
    """The providers, machines, clusters, batch sizes and markets to choose from."""
    length: StatedLength = StatedLength()  # noqa: RUF009 # it is frozen, so sharing it is safe
    """The length of the training, and facts of the profile that were not measured."""
    early: EarlyTarget | None = None
    """A value of a metric that is needed before the training ends."""
    split: bool = False
    """The training may start on one machine and end on another."""
    baseline: str | None = None
    """A machine to compare the chosen one with."""
    overheads: Overheads | None = None

    def __post_init__(self) -> None:
        stated = next((name for name in TOTALS if getattr(self.length, name) is not None), None)
        if stated is not None and self.goal.target is not None:
            raise UsageError(
                f"A number of {stated} and a target both set the length of the training. Pass only one of them.",
                field=stated,
            )
