"""The events of a measurement so far, and when it must be asked to stop. It touches nothing: whoever reads the events
adds them, on this machine or from another one."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.events import Event, build_profile


@dataclass(slots=True, kw_only=True)
class EventLog:
    """All events of a program, and what decides about its end."""

    program: Program
    trace_operations: bool
    stop_delay_seconds: float
    """Bound on the time from an iteration to the stop that is requested because of it."""
    events: list[Event] = field(default_factory=list)
    framework: str | None = None
    iteration_counts: Counter[int] = field(default_factory=Counter)
    """Iterations by process id."""
    _kinds: set[str] = field(default_factory=set)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self.events.append(event)
            self._kinds.add(event["event"])
            if event["event"] == "iteration":
                self.iteration_counts[event["pid"]] += 1
            elif event["event"] == "import":
                self.framework = self.framework or event["name"]

    @property
    def stopped(self) -> bool:
        """The probe has ended the program."""
        return "stop" in self._kinds

    def profile(self, started: float) -> Profile | None:
        """The profile if measuring ended now; None before the first iteration. `started` is the moment at which the
        program was started, on the clock of the events."""
        if not self.iteration_counts:
            return None
        return build_profile(
            self.events,
            id="so far",
            program=self.program,
            host=Host(name="here"),
            measured_at=datetime.now(UTC),
            ending="enough",
            started=started,
        )

    def stop_text(self, profile: Profile) -> str:
        """The content of the file that stops the program: processes that train together wait for each other, so they
        must all stop after the same iteration."""
        last = max(self.iteration_counts.values()) + self._stop_margin(profile)
        return str(last) if self._several_train else ""

    def stop_seconds(self, profile: Profile) -> float:
        """Seconds that the program needs to stop by itself: the iterations before the stop and, if none was traced yet,
        a traced one, which may take twice as long as others."""
        iterations = self._stop_margin(profile)
        if self.trace_operations and "operations" not in self._kinds:
            iterations += 2
        return self.stop_delay_seconds + iterations * median(profile.iteration_seconds[1:])

    @property
    def _several_train(self) -> bool:
        return len(self.iteration_counts) > 1

    def _stop_margin(self, profile: Profile) -> int:
        """Iterations that end before the stop."""
        if not self._several_train:
            return 1
        return math.ceil(self.stop_delay_seconds / profile.iteration_seconds[-1]) + 1
