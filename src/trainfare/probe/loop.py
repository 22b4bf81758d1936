"""The state of a training loop of any framework: iterations, waits for data, validations, checkpoints.

An *iteration* runs from the end of the previous one to the end of its own optimizer step. The first one starts when its
first batch is requested; without a loader, when gradients are first cleared. A *pass* is one run through a loader. A
*window* is time that is not training: from `eval()`, or from the start of a pass in which nothing is learnt, until
training goes on. A *checkpoint* is time in which state is saved. Iterations, windows and checkpoints are recorded
separately, as spans of one clock; the reader subtracts windows and checkpoints from the iterations that contain them.
The start of every pass that trains is recorded, and its end if the pass was run to the end.

It is only known that a pass trains once a backward pass follows it, so a window may be corrected afterwards: nothing is
written before it is decided.

A mark is a moment of the given clock and may be unresolved (an event on a GPU): nothing here subtracts two marks.
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
    """Gives marks, and the seconds of a mark once they are known."""

    immediate: bool
    """True where a mark is its own seconds."""

    def mark(self) -> Any:
        """The present moment."""

    def seconds(self, mark: Any) -> float | None:
        """The monotonic clock at that mark; None while the device has not reached it."""

    def synchronize(self) -> None:
        """Wait for the device, so that every mark has its seconds."""


class DataPass:
    """One run through a loader."""

    __slots__ = ("_iterator", "batches", "batches_given", "ended", "facts", "loader", "start", "trained", "waited")

    def __init__(self, iterator: Any, loader: Any, start: Any, facts: dict[str, Any]) -> None:
        self._iterator = weakref.ref(iterator)
        self.loader = weakref.ref(loader)
        self.start = start
        self.facts = facts
        """Facts about the loader, copied because a loader that is made for one loop is deleted with it."""
        self.trained = False
        self.ended = False
        self.batches_given = 0
        self.batches = 0
        """Batches given since the last iteration ended."""
        self.waited = 0.0
        """Seconds waited for these batches."""

    @property
    def alive(self) -> bool:
        return not self.ended and self._iterator() is not None

    @property
    def nearly_exhausted(self) -> bool:
        """The next batch is the last one, which may be small, or there is none."""
        length = self.facts.get("length")
        return not self.alive or (length is not None and self.batches_given >= length - 1)


class Loop:
    """The state of one training loop, updated by the listener of a framework."""

    def __init__(self, recorder: Recorder, clock: Clock, read_loss: Callable[[Any], float | None]) -> None:
        self.recorder = recorder
        self.clock = clock
        self.count = 0
        self.skipped = 0
        """Iterations that ended after the measured ones."""
        self.passes_ended = 0
        """Passes that trained and were run to their end."""
        self._read_loss = read_loss
        self._start: Any = None
        self._first_zero_grad: Any = None
        self._loss: Any = None
        self.sum_losses = False
        """Each loss of an iteration is a part of it, divided for accumulation, so they are added up."""
        self._losses: list[Any] = []
        self._losses_written = 0
        self._passes_since_step: list[DataPass] = []
        """Passes that gave a batch since the last iteration ended or the last window closed."""
        self._passes_of_last_step: list[DataPass] = []
        self._trained_loaders: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._waited = 0.0
        self._batches = 0
        self._undecided = True
        """The next backward pass or step must decide which passes train and whether a window is over."""
        self.evaluating = False
        """True while a window is open."""
        self._window: Any = None
        self._window_pass: DataPass | None = None
        self._last_window_activity: Any = None
        self._iterations: list[tuple[Any, Any, float, int, float | None]] = []
        self._written = self._batches_written = 0
        self._spans: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self._validation_written = False

    @property
    def start(self) -> Any:
        """The mark at which the current iteration began."""
        return self._start

    @property
    def near_pass_end(self) -> bool:
        """The next iteration is not an ordinary one: it has a small last batch, or the epoch ends before it."""
        return any(data_pass.nearly_exhausted for data_pass in self._passes_of_last_step)

    @property
    def training_passes(self) -> list[DataPass]:
        """The passes whose batches the last iteration used."""
        return [data_pass for data_pass in self._passes_of_last_step if data_pass.trained]

    @property
    def length(self) -> int | None:
        """Iterations per epoch, from the batches per iteration written so far: a step may use several batches."""
        batches = next((data_pass.facts.get("length") for data_pass in self.training_passes), None)
        taken = round(self._batches_written / self._written) if self._written else 0
        return math.ceil(batches / taken) if batches and taken else None

    @property
    def has_new_batch(self) -> bool:
        """A batch was given since the last iteration ended."""
        return any(data_pass.batches for data_pass in self._passes_since_step)

    # Updates from the listener.

    def gradients_cleared(self) -> None:
        if self._first_zero_grad is None:
            self._first_zero_grad = self.clock.mark()

    def pass_started(self, data_pass: DataPass) -> None:
        if not self.count:
            return
        loader = data_pass.loader()
        if self._trained_loaders.get(id(loader)) is loader:
            self._close_window(data_pass.start)
        elif self._window is None:
            self._open_window(data_pass.start, data_pass)

    def batch_asked(self, data_pass: DataPass) -> None:
        if self._window is not None and data_pass.trained:
            self._close_window(self.clock.mark())

    def batch_given(self, data_pass: DataPass, waited: float) -> None:
        data_pass.batches_given += 1
        data_pass.batches += 1
        data_pass.waited += waited
        if data_pass not in self._passes_since_step:
            self._passes_since_step.append(data_pass)
        if not data_pass.trained:
            self._undecided = True
        if self._window is not None:
            self._last_window_activity = self.clock.mark()

    def pass_ended(self, data_pass: DataPass) -> None:
        data_pass.ended = True
        if data_pass.trained:
            self._collect(data_pass)
            self.passes_ended += 1
            self._add_moment("pass_end", self.clock.mark())
            return
        if not self.count:
            return
        self._write_validation(data_pass)
        now = self.clock.mark()
        if self._window is None:
            self._add_span("window", data_pass.start, now)
        elif self._window_pass is data_pass:
            self._close_window(now)
        else:
            self._last_window_activity = now

    def mode_changed(self, *, training: bool) -> None:
        if training:
            if self._window is not None:
                self._close_window(self.clock.mark())
        elif self._window is None:
            self._open_window(self.clock.mark(), None)

    def backward_started(self, loss: Any) -> None:
        """Confirms that this is training; without a loss the previous one is kept."""
        if loss is not None:
            self._loss = self._loss + loss if self.sum_losses and self._loss is not None else loss
        if self._undecided:
            self._confirm_training()

    def checkpoint_saved(self, start: Any, path: str | None = None, *, resumes: bool = False) -> None:
        """A checkpoint was written from `start` until now; `path` is its file or folder, if known. With `resumes`, the
        Trainer can go on from it by itself."""
        if self.count:
            known = {"iteration": self.count, "path": path, "resumes": resumes or None}
            known = {name: value for name, value in known.items() if value is not None}
            self._add_span("checkpoint", start, self.clock.mark(), **known)

    def step_started(self) -> None:
        if self._undecided:
            self._confirm_training()

    def step_ended(self, learning_rate: float | None = None) -> None:
        """The end of an iteration."""
        end = self.clock.mark()
        waited, batches, passes = self._waited, self._batches, self._passes_since_step
        for data_pass in passes:
            if data_pass.trained:
                waited += data_pass.waited
                batches += data_pass.batches
                data_pass.waited, data_pass.batches = 0.0, 0
        self.count += 1
        self._iterations.append((self._start, end, waited, batches, learning_rate))
        self._losses.append(self._loss)
        self._start, self._loss, self._waited, self._batches = end, None, 0.0, 0
        self._passes_since_step, self._passes_of_last_step = [], passes

    def add_iterations(
        self,
        rows: list[tuple[Any, ...]],
        data_pass: DataPass | None,
        batches_given: int,
        waited: float,
        batches: int,
        loss: Any,
    ) -> None:
        """Add iterations that took the fast path, and what the unfinished one has had so far of the same pass."""
        if rows:
            self.count += len(rows)
            self._iterations += [row[:5] for row in rows]
            self._losses += [row[5] for row in rows]
            self._start = rows[-1][1]
            self._passes_of_last_step = [data_pass] if data_pass is not None and rows[-1][3] else []
        if loss is not None:
            self._loss = loss
        if data_pass is not None:
            data_pass.batches_given += batches_given
            data_pass.waited += waited
            data_pass.batches += batches
            if batches and data_pass not in self._passes_since_step:
                self._passes_since_step.append(data_pass)

    def skip_iteration(self) -> None:
        """An iteration ended that is not measured any more."""
        self.skipped += 1
        self._start, self._loss = self.clock.mark(), None
        self._waited, self._batches = 0.0, 0
        self._passes_since_step, self._passes_of_last_step = [], self._passes_since_step

    def restart_clock(self) -> None:
        """Start the next iteration now: the probe itself took time since the last one ended."""
        self._start = self.clock.mark()

    # Output.

    def write(self) -> None:
        """Record everything that is known without waiting for a device."""
        rows = self._resolved_rows()
        if rows:
            # One event for all: naming every field of every iteration would cost more than recording them.
            numbers = [number for row in rows for number in row]
            self.recorder.add("iterations", first=self._written + 1, packed=pack_doubles(numbers))
            self._written += len(rows)
            self._batches_written += sum(row[3] for row in rows)
            del self._iterations[: len(rows)]
        while self._spans:
            kind, start, end, facts = self._spans[0]
            begun, ended = self.clock.seconds(start), self.clock.seconds(end)
            if begun is None or ended is None:
                break
            self.recorder.add(kind, start=begun, end=ended, **facts)
            del self._spans[0]

    def _resolved_rows(self) -> list[tuple[Any, ...]]:
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
        """Record the losses. Reading a loss waits for its device, so a listener on a GPU calls this only at the end."""
        if self._losses:
            values = [None if loss is None else self._read_loss(loss) for loss in self._losses]
            self.recorder.add("losses", first=self._losses_written + 1, packed=pack_doubles(values))
            self._losses_written += len(values)
            self._losses.clear()

    def finish(self) -> None:
        """Close what is open and record the rest."""
        if self._window is not None:
            self._close_window(self._last_window_activity)
        self.clock.synchronize()
        self.write()
        self.write_losses()

    # Decisions.

    def _confirm_training(self) -> None:
        """A backward pass or a step came: the passes that gave a batch are training passes."""
        self._undecided = False
        start = None
        for data_pass in self._passes_since_step:
            if not data_pass.trained and data_pass.alive:
                data_pass.trained = True
                self._add_moment("pass", data_pass.start)
                loader = data_pass.loader()
                if loader is not None:
                    self._trained_loaders[id(loader)] = loader
                start = data_pass.start if start is None else start
        if self._start is None:
            begun = self._first_zero_grad if start is None else start
            self._start = self.clock.mark() if begun is None else begun
        if self._window is not None:
            trains_itself = self._window_pass is not None and self._window_pass.trained
            end = self._last_window_activity if start is None else start
            self._close_window(None if trains_itself else end)

    def _open_window(self, start: Any, data_pass: DataPass | None) -> None:
        self._window, self._window_pass = start, data_pass
        self.evaluating = self._undecided = True

    def _close_window(self, end: Any) -> None:
        """End the window; without an end it is discarded, because training went on inside."""
        if self._window is not None and end is not None:
            if self.count:
                self._add_span("window", self._window, end)
                for data_pass in self._passes_since_step:
                    if not data_pass.trained:
                        self._write_validation(data_pass)  # a framework that counts batches never requests the end
            self._passes_since_step = [data_pass for data_pass in self._passes_since_step if data_pass.trained]
        self._window = self._window_pass = self._last_window_activity = None
        self.evaluating = False

    def _collect(self, data_pass: DataPass) -> None:
        self._waited += data_pass.waited
        self._batches += data_pass.batches
        data_pass.waited, data_pass.batches = 0.0, 0

    def _write_validation(self, data_pass: DataPass) -> None:
        if not self._validation_written:
            self._validation_written = True
            self.recorder.add("validation", **data_pass.facts)

    def _add_span(self, kind: str, start: Any, end: Any, **facts: Any) -> None:
        self._spans.append((kind, start, end, facts))

    def _add_moment(self, kind: str, mark: Any) -> None:
        self._add_span(kind, mark, mark)


def pack_doubles(numbers: list[float | None]) -> str:
    """The numbers as doubles in base64, None as NaN. Decimal digits would take forty times longer, more than all other
    work of the probe."""
    doubles = array("d", [math.nan if number is None else number for number in numbers])
    return binascii.b2a_base64(doubles.tobytes(), newline=False).decode("ascii")
