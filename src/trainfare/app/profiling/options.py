"""The options of a profile: how the program is run, what is measured, and when measuring ends."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from trainfare.app.profiling.save import MIN_ITERATIONS
from trainfare.app.stated import StatedLength
from trainfare.errors import UsageError
from trainfare.model.stability import PATIENCE
from trainfare.profiler.measure import MeasurementProgress
from trainfare.profiler.stopping import STEADY, StoppingRule, UntilEpochs, UntilStable, UntilSteady
from trainfare.profiler.workspace import Workspace
from trainfare.settings import Settings


class ProfileKeywords(TypedDict, total=False):
    """The keyword arguments of `profile` and `profile_series`; each is a field of `ProfileOptions`."""

    settings: Settings | None
    directory: Path | None
    iterations: int | None
    epochs: int | None
    steps: int | None
    tokens: float | None
    samples: int | None
    batch_size: int | None
    until_stable: bool
    patience: int | None
    max_seconds: float | None
    most_seconds: float | None
    in_place: bool
    keep_files: bool
    on: str | None
    trace_operations: bool
    gradient_noise: bool
    operator_times: bool
    on_workspace: Callable[[Workspace], None]
    on_progress: Callable[[MeasurementProgress], None]
    on_output: Callable[[bytes], None] | None
    sandbox: tuple[str, ...] | None


def _ignore(_: object) -> None:
    """The default of a callback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Options for running and measuring a program. Raises UsageError for options that contradict each other."""

    settings: Settings | None = None
    directory: Path | None = None
    """The folder in which the program is started; by default the current one."""
    iterations: int | None = None
    """Measure exactly this many iterations."""
    epochs: int | None = None
    """Measure this many epochs with their validations."""
    steps: int | None = None
    """The program trains this many iterations in all,"""
    tokens: float | None = None
    """or this many tokens, if the program does not say so itself; its"""
    samples: int | None = None
    """training data has this many samples, and"""
    batch_size: int | None = None
    """its effective batch size is this, which is not changed but stated."""
    until_stable: bool = False
    """Measure until the metric has not improved for `patience` epochs."""
    patience: int | None = None
    max_seconds: float | None = None
    """The longest time that the program may run, from its start on; without another rule, measure for so long."""
    most_seconds: float | None = None
    """Another limit, which does not change how long is measured."""
    in_place: bool = False
    """Run in the folder itself, not in a copy."""
    keep_files: bool = False
    """Do not delete the copy after the run."""
    on: str | None = None
    """The catalog key of this machine, such as aws/p3.2xlarge, or of a slice of it."""
    trace_operations: bool = True
    gradient_noise: bool = False
    operator_times: bool = False
    on_workspace: Callable[[Workspace], None] = _ignore
    """Gets the folder in which the program runs, before it starts; after the run it has the changes made there."""
    on_progress: Callable[[MeasurementProgress], None] = _ignore
    on_output: Callable[[bytes], None] | None = None
    sandbox: tuple[str, ...] | None = None
    """The words before the command that confine a program that was uploaded; None if it needs none."""

    def __post_init__(self) -> None:
        rules = {
            "iterations": self.iterations is not None,
            "epochs": self.epochs is not None,
            "until_stable": self.until_stable,
        }
        given = [name for name, is_given in rules.items() if is_given]
        if len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} each determine when to stop. Give only one of them.", field=given[1]
            )
        if self.patience is not None and not self.until_stable:
            raise UsageError("patience is only used with until_stable.", field="patience")
        if self.max_seconds is not None and self.iterations is not None:
            message = "iterations measures an exact number of iterations, so a time limit cannot be combined with it."
            raise UsageError(message, field="max_seconds")
        _ = self.stated_length
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise UsageError(f"must be positive, got {self.max_seconds}.", field="max_seconds")
        for name, number, smallest in (
            ("iterations", self.iterations, MIN_ITERATIONS),
            ("epochs", self.epochs, 1),
            ("patience", self.patience, 1),
        ):
            if number is not None and number < smallest:
                raise UsageError(f"must be an integer of at least {smallest}, got {number}.", field=name)

    @property
    def stated_length(self) -> StatedLength:
        """The length and the batch size that the user states."""
        return StatedLength(
            steps=self.steps, tokens=self.tokens, samples=self.samples, profiled_batch_size=self.batch_size
        )

    @property
    def longest_seconds(self) -> float | None:
        """The longest time that the program may run; None if there is no limit."""
        return min((limit for limit in (self.max_seconds, self.most_seconds) if limit is not None), default=None)

    @property
    def stopping_rule(self) -> StoppingRule:
        """The rule that ends the measurement if no number of iterations does."""
        if self.epochs is not None:
            return UntilEpochs(epochs=self.epochs, max_seconds=self.max_seconds)
        if self.until_stable:
            patience = PATIENCE if self.patience is None else self.patience
            return UntilStable(patience=patience, max_seconds=self.max_seconds)
        return STEADY if self.max_seconds is None else UntilSteady(max_seconds=self.max_seconds)

    def target_iterations(self, default: int | None) -> int | None:
        """The number of iterations to measure: the given one, or `default` if no stopping rule is given either."""
        no_rule_given = self.epochs is None and not self.until_stable and self.max_seconds is None
        return default if self.iterations is None and no_rule_given else self.iterations
