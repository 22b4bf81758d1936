"""The state of a program before its first iteration, from the events of the probe and the memory of the machine."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from trainfare.model.startup import ConstructedModel, MemoryReading, StartUp
from trainfare.profiler.events import Event
from trainfare.profiler.memory import MemoryWatch, has_accelerator

_READ_SECONDS = 1.0
_READ_SECONDS_IN_TRAINING = 5.0
"""Reading takes about 5 ms of one core: rare enough not to disturb the iterations that are measured."""
_COUNTS = (
    "parameters",
    "trainable_parameters",
    "host_weight_bytes",
    "host_gradient_bytes",
    "optimizers",
    "host_optimizer_bytes",
)


def constructed_model(events: Iterable[Event]) -> ConstructedModel | None:
    """The model as last counted by each process, added up; None before the first count."""
    latest = {event["pid"]: event for event in events if event["event"] == "construction"}
    if not latest:
        return None
    return ConstructedModel(
        **{name: sum(event[name] for event in latest.values()) for name in _COUNTS},
        optimizer=next((event["optimizer"] for event in latest.values() if event["optimizer"]), None),
        processes=len(latest),
    )


@dataclass(slots=True)
class StartUpWatch:
    """Reads the memory of a program now and then, often before its first iteration and rarely after it."""

    memory_watch: MemoryWatch
    memory: MemoryReading | None = None
    """The last reading."""
    _has_accelerator: bool = field(default_factory=has_accelerator)
    _read_at: float = 0.0

    def read_memory(self, *, training: bool) -> None:
        """Read the memory of the program if that is due."""
        now = time.monotonic()
        if now - self._read_at >= (_READ_SECONDS_IN_TRAINING if training else _READ_SECONDS):
            self._read_at = now
            self.memory = self.memory_watch.read() or self.memory

    def state(self, events: Iterable[Event], seconds: float) -> StartUp:
        """The state of the program after so many seconds without an iteration."""
        events = list(events)
        return StartUp(
            seconds=seconds,
            frameworks=tuple(dict.fromkeys(event["name"] for event in events if event["event"] == "import")),
            model=constructed_model(events),
            memory=self.memory,
            has_accelerator=self._has_accelerator,
        )
