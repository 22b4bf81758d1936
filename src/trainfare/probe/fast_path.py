"""The fast path for ordinary iterations, at which the probe has nothing to write, trace or decide.

Most iterations are the same few calls: a batch from the loader that trains, a backward pass, a step. The hooks note
them in one small object and hand them to the Loop in one call, when something else happens or something is due. The
moment and the number of iterations before which nothing is due are known beforehand.

Between two iterations the processor's caches no longer hold the probe's data, so the cost of a hook is the number of
objects that it touches. Noting an iteration here takes half as long as passing it to the Loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfare.probe.loop import DataPass, Loop


def no_ref() -> None:
    """Stands for a dead weak reference: calling it returns None."""


class FastPath:
    """The notes that a listener takes between two iterations at which there is more to do."""

    __slots__ = (
        "active", "batches", "batches_given", "data_pass", "deadline", "in_backward", "iterations_left", "loss",
        "optimizer_ref", "rows", "start", "sum_losses", "unscaled_loss", "waited",
    )  # fmt: skip

    def __init__(self) -> None:
        self.active = False
        self.deadline = 0.0
        """The moment at which something is due."""
        self.iterations_left = 0.0
        """The number of iterations that may still take the fast path."""
        self.optimizer_ref: Callable[[], Any] = no_ref
        """The optimizer whose step ends an iteration."""
        self.data_pass: DataPass | None = None
        """The pass that trains, if there is a loader."""
        self.start: Any = None
        self.waited = 0.0
        self.batches = 0
        self.loss: Any = None
        self.unscaled_loss: Any = None
        """The loss before it is divided for accumulation or multiplied for half precision; also used outside the fast
        path."""
        self.sum_losses = False
        """Each loss of an iteration is a part of it."""
        self.in_backward = False
        """A backward pass is running."""
        self.batches_given = 0
        """The number of batches in all iterations noted here."""
        self.rows: list[tuple[Any, Any, float, int, float | None, Any]] = []

    def begin(self, loop: Loop, optimizer_ref: Callable[[], Any], deadline: float, iterations_left: float) -> None:
        """Enter the fast path after an iteration was passed to the Loop, unless something is open there."""
        passes = loop.training_passes
        if len(passes) > 1 or loop.evaluating or iterations_left < 1:
            return
        self.data_pass = passes[0] if passes else None
        self.start = loop.start
        self.sum_losses = loop.sum_losses
        self.optimizer_ref, self.deadline = optimizer_ref, deadline
        self.iterations_left, self.active = iterations_left, True

    def end(self, loop: Loop) -> None:
        """Leave the fast path: hand everything to the Loop, including the iteration that is not over."""
        self.active = self.in_backward = False
        rows, self.rows = self.rows, []
        loop.add_iterations(rows, self.data_pass, self.batches_given, self.waited, self.batches, self.loss)
        self.data_pass, self.loss, self.waited, self.batches, self.batches_given = None, None, 0.0, 0, 0
