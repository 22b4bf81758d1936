"""What a training loop shows, whatever its framework: iterations, waits for data, validations.

An *iteration* runs from the end of the one before to the end of its own optimizer step. The first starts when
its first batch is asked for, or where there is no loader when gradients are first cleared. A *pass* is one run through
a loader. A *window* is time that is not training: from `eval()`, or the start of a pass in which nothing is
learnt, until training goes on. A *checkpoint* is time in which state is saved. Iterations, windows and checkpoints
are recorded apart, as spans of one clock; whoever reads them takes windows and checkpoints out of the iterations
that they lie in. The start of every pass that trains is recorded, and its end if it was run to the end.

Which pass trains is only known once a backward pass follows it, so a window may be corrected after the fact:
nothing is written before it is settled.

A mark is a moment of the given clock and may be unresolved (an event on a GPU): nothing here subtracts two.
"""

from __future__ import annotations

import binascii
import math
import weakref
from array import array
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfare.probe.recorder import Recorder


class Clock(Protocol):
    immediate: bool
    """A mark is its seconds."""

    def mark(self) -> Any:
        """This moment."""

    def seconds(self, mark: Any) -> float | None:
        """The monotonic clock at that moment; None while the device has not reached it."""

    def settle(self) -> None:
        """Wait for the device, so that every mark has its seconds."""


class Pass:
    """One run through a loader."""

    __slots__ = ("_iterator", "batches", "ended", "facts", "given", "loader", "start", "trained", "waited")

    def __init__(self, iterator: Any, loader: Any, start: Any, facts: dict[str, Any]) -> None:
        self._iterator = weakref.ref(iterator)
        self.loader = weakref.ref(loader)
        self.start = start
        self.facts = facts
        """What the loader knows of itself; kept, because a loader made for one loop goes with it."""
        self.trained = False
        self.ended = False
        self.given = 0
        self.batches = 0
        """Those given, and the seconds waited for them, since the last iteration."""
        self.waited = 0.0

    @property
    def alive(self) -> bool:
        return not self.ended and self._iterator() is not None

    @property
    def nearly_over(self) -> bool:
        """The next batch is the last, which may be small, or there is none."""
        length = self.facts.get("length")
        return not self.alive or (length is not None and self.given >= length - 1)


class Loop:
    """The state of one training loop, moved on by the listener of a framework."""

    def __init__(self, recorder: Recorder, clock: Clock, read_loss: Callable[[Any], float | None]) -> None:
        self.recorder = recorder
        self.clock = clock
        self.count = 0
        self.skipped = 0
        """Iterations that ended when enough was seen."""
        self.passes_ended = 0
        """Of those that train."""
        self._read_loss = read_loss
        self._start: Any = None
        self._cleared: Any = None
        self._loss: Any = None
        self._losses: list[Any] = []
        self._losses_written = 0
        self._passes: list[Pass] = []
        """Those that gave a batch since the last iteration ended or the last window closed."""
        self._passes_before: list[Pass] = []
        self._trained_loaders: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._waited = 0.0
        self._batches = 0
        self._unsettled = True
        """A backward pass or a step has something to decide: which passes train, whether a window is over."""
        self.evaluating = False
        """A window is open."""
        self._window: Any = None
        self._window_of: Pass | None = None
        self._window_activity: Any = None
        self._iterations: list[tuple[Any, Any, float, int, float | None]] = []
        self._written = self._batches_written = 0
        self._spans: list[tuple[str, Any, Any]] = []
        self._validation_told = False

    @property
    def start(self) -> Any:
        """When the iteration that is going on began."""
        return self._start

    @property
    def between_passes(self) -> bool:
        """What comes next is not an ordinary iteration: a small last batch, or the end of the epoch."""
        return any(one.nearly_over for one in self._passes_before)

    @property
    def training_passes(self) -> list[Pass]:
        """Those that fed the iteration which ended last."""
        return [one for one in self._passes_before if one.trained]

    @property
    def length(self) -> int | None:
        """Iterations an epoch, of those that were written: a step may take several batches."""
        batches = next((one.facts.get("length") for one in self.training_passes), None)
        taken = round(self._batches_written / self._written) if self._written else 0
        return math.ceil(batches / taken) if batches and taken else None

    @property
    def fed(self) -> bool:
        """A batch was given since the last iteration ended."""
        return any(one.batches for one in self._passes)

    # What the listener tells.

    def gradients_cleared(self) -> None:
        if self._cleared is None:
            self._cleared = self.clock.mark()

    def pass_started(self, one: Pass) -> None:
        if not self.count:
            return
        loader = one.loader()
        if self._trained_loaders.get(id(loader)) is loader:
            self._close_window(one.start)
        elif self._window is None:
            self._open_window(one.start, one)

    def batch_asked(self, one: Pass) -> None:
        if self._window is not None and one.trained:
            self._close_window(self.clock.mark())

    def batch_given(self, one: Pass, waited: float) -> None:
        one.given += 1
        one.batches += 1
        one.waited += waited
        if one not in self._passes:
            self._passes.append(one)
        if not one.trained:
            self._unsettled = True
        if self._window is not None:
            self._window_activity = self.clock.mark()

    def pass_ended(self, one: Pass) -> None:
        one.ended = True
        if one.trained:
            self._take(one)
            self.passes_ended += 1
            self._add_moment("pass_end", self.clock.mark())
            return
        if not self.count:
            return
        self._tell_validation(one)
        now = self.clock.mark()
        if self._window is None:
            self._add_span("window", one.start, now)
        elif self._window_of is one:
            self._close_window(now)
        else:
            self._window_activity = now

    def mode_changed(self, *, training: bool) -> None:
        if training:
            if self._window is not None:
                self._close_window(self.clock.mark())
        elif self._window is None:
            self._open_window(self.clock.mark(), None)

    def backward_started(self, loss: Any) -> None:
        """Without a loss the one before stands."""
        if loss is not None:
            self._loss = loss
        if self._unsettled:
            self._training_seen()

    def saved(self, start: Any) -> None:
        """A checkpoint was written from then until now."""
        if self.count:
            self._add_span("checkpoint", start, self.clock.mark())

    def step_started(self) -> None:
        if self._unsettled:
            self._training_seen()

    def step_ended(self, learning_rate: float | None = None) -> None:
        """The end of an iteration."""
        end = self.clock.mark()
        waited, batches, passes = self._waited, self._batches, self._passes
        for one in passes:
            if one.trained:
                waited += one.waited
                batches += one.batches
                one.waited, one.batches = 0.0, 0
        self.count += 1
        self._iterations.append((self._start, end, waited, batches, learning_rate))
        self._losses.append(self._loss)
        self._start, self._loss, self._waited, self._batches = end, None, 0.0, 0
        self._passes, self._passes_before = [], passes

    def take(
        self, rows: list[tuple[Any, ...]], one: Pass | None, given: int, waited: float, batches: int, loss: Any
    ) -> None:
        """FastPath iterations, and what the next has had so far of the same pass."""
        if rows:
            self.count += len(rows)
            self._iterations += [row[:5] for row in rows]
            self._losses += [row[5] for row in rows]
            self._start = rows[-1][1]
            self._passes_before = [one] if one is not None and rows[-1][3] else []
        if loss is not None:
            self._loss = loss
        if one is not None:
            one.given += given
            one.waited += waited
            one.batches += batches
            if batches and one not in self._passes:
                self._passes.append(one)

    def skip_iteration(self) -> None:
        """An iteration ended that is not wanted any more."""
        self.skipped += 1
        self._start, self._loss = self.clock.mark(), None
        self._waited, self._batches = 0.0, 0
        self._passes, self._passes_before = [], self._passes

    def restart_clock(self) -> None:
        """The probe itself took time since the last iteration ended: the next starts now."""
        self._start = self.clock.mark()

    # What is written.

    def write(self) -> None:
        """Hand over what is known without waiting for a device."""
        rows = self._settled_rows()
        if rows:
            # One event for all: naming every field of every iteration would cost more than noticing them.
            numbers = [number for row in rows for number in row]
            self.recorder.add("iterations", first=self._written + 1, packed=packed(numbers))
            self._written += len(rows)
            self._batches_written += sum(row[3] for row in rows)
            del self._iterations[: len(rows)]
        while self._spans:
            kind, *marks = self._spans[0]
            begun, ended = map(self.clock.seconds, marks)
            if begun is None or ended is None:
                break
            self.recorder.add(kind, start=begun, end=ended)
            del self._spans[0]

    def _settled_rows(self) -> list[tuple[Any, ...]]:
        if self.clock.immediate:
            return self._iterations.copy()
        rows = []
        for start, end, *others in self._iterations:
            begun, ended = self.clock.seconds(start), self.clock.seconds(end)
            if begun is None or ended is None:
                break
            rows.append((begun, ended, *others))
        return rows

    def write_losses(self) -> None:
        """Reading a loss waits for its device, so a listener on a GPU calls this only at the end."""
        if self._losses:
            values = [None if loss is None else self._read_loss(loss) for loss in self._losses]
            self.recorder.add("losses", first=self._losses_written + 1, packed=packed(values))
            self._losses_written += len(values)
            self._losses.clear()

    def finish(self) -> None:
        """Nothing more comes: settle what is open."""
        if self._window is not None:
            self._close_window(self._window_activity)
        self.clock.settle()
        self.write()
        self.write_losses()

    # How it is decided.

    def _training_seen(self) -> None:
        """A backward pass or a step: the passes that were asked for a batch are training passes."""
        self._unsettled = False
        start = None
        for one in self._passes:
            if not one.trained and one.alive:
                one.trained = True
                self._add_moment("pass", one.start)
                loader = one.loader()
                if loader is not None:
                    self._trained_loaders[id(loader)] = loader
                start = one.start if start is None else start
        if self._start is None:
            begun = self._cleared if start is None else start
            self._start = self.clock.mark() if begun is None else begun
        if self._window is not None:
            trains_itself = self._window_of is not None and self._window_of.trained
            end = self._window_activity if start is None else start
            self._close_window(None if trains_itself else end)

    def _open_window(self, start: Any, of: Pass | None) -> None:
        self._window, self._window_of = start, of
        self.evaluating = self._unsettled = True

    def _close_window(self, end: Any) -> None:
        """Without an end it was no window: training went on inside."""
        if self._window is not None and end is not None:
            if self.count:
                self._add_span("window", self._window, end)
                for one in self._passes:
                    if not one.trained:
                        self._tell_validation(one)  # a framework that counts batches never asks for the end
            self._passes = [one for one in self._passes if one.trained]
        self._window = self._window_of = self._window_activity = None
        self.evaluating = False

    def _take(self, one: Pass) -> None:
        self._waited += one.waited
        self._batches += one.batches
        one.waited, one.batches = 0.0, 0

    def _tell_validation(self, one: Pass) -> None:
        if not self._validation_told:
            self._validation_told = True
            self.recorder.add("validation", **one.facts)

    def _add_span(self, kind: str, start: Any, end: Any) -> None:
        self._spans.append((kind, start, end))

    def _add_moment(self, kind: str, mark: Any) -> None:
        self._spans.append((kind, mark, mark))


def packed(numbers: list[float | None]) -> str:
    """Doubles in base64, None being NaN. As digits they would take forty times longer, more than all else together."""
    doubles = array("d", [math.nan if number is None else number for number in numbers])
    return binascii.b2a_base64(doubles.tobytes(), newline=False).decode("ascii")
