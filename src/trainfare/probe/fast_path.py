"""FastPath iterations: nothing is due before a moment and a count that are known beforehand.

Most iterations are the same few calls: a batch from the pass that trains, a backward pass, a step. They are noted here
in one small object and told to the Loop together, when something else happens or something is due. Between two
iterations the caches of the processor have forgotten us, so that what costs is every object that is touched, and not
what is done with it: noting an iteration takes a half of what telling it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfare.probe.loop import Loop, Pass


def no_ref() -> None:
    """In the place of a weak reference."""


class FastPath:
    """What a listener notes between two iterations at which there is more to do."""

    __slots__ = (
        "batches", "given", "inside", "left", "loss", "of", "on", "one", "rows", "start", "until", "waited", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.on = False
        self.until = 0.0
        self.left = 0.0
        """Iterations that may still be calm."""
        self.of: Callable[[], Any] = no_ref
        """The optimizer whose step ends an iteration."""
        self.one: Pass | None = None
        """The pass that trains, where there is a loader."""
        self.start: Any = None
        self.waited = 0.0
        self.batches = 0
        self.loss: Any = None
        self.whole: Any = None
        """The loss before it is divided for accumulation or multiplied for half precision, calm or not."""
        self.inside = False
        """A backward pass is going on."""
        self.given = 0
        """Batches in all these iterations."""
        self.rows: list[tuple[Any, Any, float, int, float | None, Any]] = []

    def begin(self, loop: Loop, of: Callable[[], Any], until: float, left: float) -> None:
        """After an iteration was told to the Loop, if nothing is open there."""
        passes = loop.training_passes
        if len(passes) > 1 or loop.evaluating or left < 1:
            return
        self.one = passes[0] if passes else None
        self.start = loop.start
        self.of, self.until, self.left, self.on = of, until, left, True

    def end(self, loop: Loop) -> None:
        """Tell the Loop all that was noted, also of the iteration that is not over."""
        self.on = self.inside = False
        rows, self.rows = self.rows, []
        loop.take(rows, self.one, self.given, self.waited, self.batches, self.loss)
        self.one, self.loss, self.waited, self.batches, self.given = None, None, 0.0, 0, 0
