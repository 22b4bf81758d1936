"""Measures a program on another machine: the command that loads the probe there, and the events that come back.

Nothing of ours is installed there: the agent that runs the program has put the probe on its path, and the command sets
where events are written and what is measured. The stopping rule is evaluated here, on the events that were fetched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.probe.stop import STOP_FILE_SUFFIX
from trainfare.profiler.event_log import EventLog
from trainfare.profiler.events import Event, parse_events
from trainfare.profiler.measure import MeasurementProgress
from trainfare.profiler.stopping import StoppingRule, UntilStable

EVENTS_FILE = "profile.jsonl"
"""The events, in the folder of the launch."""
STOP_FILE = EVENTS_FILE + STOP_FILE_SUFFIX

STOP_DELAY_SECONDS = 4.0
"""Bound on the delay of a stop: events are fetched every two seconds, and each command takes some tenths of one."""
_LATEST_START_SECONDS = 3600.0
"""A program whose first event comes later than this after its start: a clock must have been set."""


def probed_command(
    command: Sequence[str],
    *,
    launch_variable: str,
    iterations: int | None,
    stopping_rule: StoppingRule,
    trace_operations: bool,
    gradient_noise: bool = False,
    operator_times: bool = False,
) -> tuple[str, ...]:
    """The command with the options of the probe. `launch_variable` is the environment variable that the agent sets to
    the folder of the launch."""
    by_loss = iterations is None and isinstance(stopping_rule, UntilStable)
    options = {
        boot.ITERATIONS: iterations or 0,
        boot.OPERATIONS: int(trace_operations),
        boot.BY_LOSS: int(by_loss),
        boot.GRADIENT_NOISE: int(gradient_noise),
        boot.OPERATOR_TIMES: int(operator_times),
    }
    words = " ".join(f"{name}={value}" for name, value in options.items())
    script = f'export {words} {boot.EVENTS}="${launch_variable}/{EVENTS_FILE}"; : > "${boot.EVENTS}" && exec "$@"'
    return ("sh", "-c", script, "sh", *command)


@dataclass(slots=True, kw_only=True)
class DistantMeasurement:
    """A measurement on another machine, as far as its events are known here."""

    program: Program
    iterations: int | None
    stopping_rule: StoppingRule
    trace_operations: bool
    stop_requested: bool = False
    time_limited: bool = False
    """The stop was requested because the time limit was near."""
    log: EventLog = field(init=False)
    _rest: bytes = b""

    def __post_init__(self) -> None:
        self.log = EventLog(
            program=self.program, trace_operations=self.trace_operations, stop_delay_seconds=STOP_DELAY_SECONDS
        )

    def add(self, text: bytes) -> bool:
        """Add what was fetched, of which the last line may be incomplete; returns whether there was an event."""
        text = self._rest + text
        complete = text.rfind(b"\n") + 1
        self._rest = text[complete:]
        found = parse_events(text[:complete])
        self.log.add(found)
        return bool(found)

    @property
    def events(self) -> list[Event]:
        return self.log.events

    @property
    def stopped(self) -> bool:
        return self.log.stopped

    def progress(self, seconds: float) -> MeasurementProgress:
        """The progress, so many seconds after the start of the program."""
        return MeasurementProgress(
            profile=self.log.profile(self._first_event_at),
            target_iterations=self.iterations,
            stopping_rule=self.stopping_rule,
            seconds=seconds,
            framework=self.log.framework,
            stopping=self.stopped or self.stop_requested,
        )

    def stop_request(self, profile: Profile | None, *, seconds_left: float) -> str | None:
        """The content of the stop file, once, when the stopping rule is met or the time limit is near; else None."""
        if self.iterations is not None or self.stop_requested or self.stopped or profile is None:
            return None
        several = len(profile.iteration_seconds) > 1
        self.time_limited = several and self.log.stop_seconds(profile) >= seconds_left
        if not self.time_limited and not self.stopping_rule.is_met(profile, self._seconds_since_first_iteration):
            return None
        self.stop_requested = True
        return self.log.stop_text(profile)

    def started(self, moment: float | None) -> float:
        """The moment at which the program was started, on the clock of its events. `moment` is what the machine says
        about it; without it, or if one of its clocks was set, the program began with its first event."""
        first = self._first_event_at
        return moment if moment is not None and first - _LATEST_START_SECONDS < moment <= first else first

    @property
    def _first_event_at(self) -> float:
        return min((event["time"] for event in self.events if "time" in event), default=0.0)

    @property
    def _seconds_since_first_iteration(self) -> float:
        """By the clock of the machine, as of the last iteration that is known here."""
        ends = [event["end"] for event in self.events if event["event"] == "iteration"]
        return max(ends) - min(ends) if ends else 0.0
