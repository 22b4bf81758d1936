"""Runs a program once under the probe and collects the events.

The program runs in a session of its own, in the given directory (`workspace.py` makes one). Its output goes to a
callback and into a bounded log. When measuring ends, every process that it started is ended.

The probe itself stops after a number of iterations. Any other stopping rule is evaluated here on the events so far, and
a file tells every process to stop. A time limit holds in the middle of an iteration too: shortly before it the
same file stops the processes at the end of an iteration, and when it has passed they are ended by signals.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from trainfare.errors import Remedy, UsageError
from trainfare.model.profile import Ending, Profile
from trainfare.model.program import Program
from trainfare.model.startup import MemoryReading, StartUp
from trainfare.probe import boot
from trainfare.probe.stop import STOP_FILE_SUFFIX
from trainfare.profiler.command import probe_blocking_flag
from trainfare.profiler.event_log import EventLog
from trainfare.profiler.events import Event, parse_events
from trainfare.profiler.memory import MemoryWatch
from trainfare.profiler.output import Log, Pump
from trainfare.profiler.processes import end_all, is_running, pause_shell
from trainfare.profiler.startup import StartUpWatch
from trainfare.profiler.stopping import STEADY, StoppingRule, UntilStable

PROBE_SITE = Path(boot.__file__).parent / "site"

_POLL_SECONDS = 0.05
_PROGRESS_SECONDS = 0.25
_SHUTDOWN_SECONDS = 10.0
"""Time for a program to end after the stop: `finally` blocks, loggers, other ranks."""
_LAUNCHER_SECONDS = 3.0
"""Time for a launcher (`torchrun`) to notice that the processes it launched have ended."""
_INTERRUPT_SECONDS = 3.0
"""Time for a program to end after an interrupt, and again after a request to terminate; then it is killed."""
_STOP_DELAY_SECONDS = 0.5
"""Bound on the delay of a stop: the probe writes every 0.2 s and checks for the stop file every 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementProgress:
    """The progress of a running measurement."""

    profile: Profile | None
    """The profile if measuring ended now; None before the first iteration."""
    target_iterations: int | None
    stopping_rule: StoppingRule
    """The rule that ends the measurement, if no number of iterations does."""
    seconds: float
    """Time since the program was started."""
    framework: str | None
    stopping: bool
    startup: StartUp | None = None
    """The state of the program before the end of its first iteration; None after it."""

    @property
    def iterations(self) -> int:
        return len(self.profile.iteration_seconds) if self.profile else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """The events, the ending and the log of one run."""

    events: tuple[Event, ...]
    started: float
    """The time at which the program was started, on the clock of the events."""
    ending: Ending
    exit_code: int | None
    """The exit code; None if the profiler ended the program."""
    log: Log
    startup: StartUp | None = None
    """The last state before the first iteration, if none has ended."""
    memory: MemoryReading | None = None
    """The last reading while the program ran, with the peak of its processes."""
    oom_killed: bool = False
    """The kernel killed a process of this machine for lack of memory during the run."""


def measure(
    program: Program,
    *,
    iterations: int | None = None,
    stopping_rule: StoppingRule = STEADY,
    max_seconds: float | None = None,
    directory: Path | None = None,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    stall_seconds: float,
    trace_operations: bool,
    gradient_noise: bool = False,
    operator_times: bool = False,
    on_progress: Callable[[MeasurementProgress], None],
    on_output: Callable[[bytes], None] | None,
) -> MeasuredRun:
    """Run the program until `iterations` are measured or, without a number, until `stopping_rule` is met; or until the
    program ends, stalls or is interrupted.

    `max_seconds` is a limit from the start of the program on, which also ends it in the middle of an iteration.
    `directory` is where it runs, by default its own. `prefix` precedes its command and `environment` is added to ours;
    they confine it to a part of this machine.
    """
    flag = probe_blocking_flag(program.command)
    if flag is not None:
        raise UsageError(
            f"`{program.command_line}` cannot be profiled: with {flag} Python ignores PYTHONPATH or its site hooks, "
            f"through which the probe is loaded. Remove {flag} from the command; the program itself need not change.",
            field="command",
        )
    with _temporary_folder() as folder, _interrupt_requests() as interrupted:
        path = Path(folder) / "events.jsonl"
        path.touch()
        log = Log()
        started = time.monotonic()
        process = _start(
            program,
            directory or Path(program.directory),
            prefix,
            {
                **_environment(path, iterations, stopping_rule, trace_operations),
                boot.GRADIENT_NOISE: "1" if gradient_noise else "0",
                boot.OPERATOR_TIMES: "1" if operator_times else "0",
                **(environment or {}),
            },
        )
        assert process.stdout is not None  # noqa: S101 # it is a pipe
        pump = Pump(process.stdout.fileno(), log, on_output)
        pump.start()
        watch = _EventWatcher(
            path,
            EventLog(program=program, trace_operations=trace_operations, stop_delay_seconds=_STOP_DELAY_SECONDS),
            started,
            iterations,
            stopping_rule,
            StartUpWatch(MemoryWatch(process.pid)),
            deadline=math.inf if max_seconds is None else started + max_seconds,
        )
        ending: Ending = "interrupted"
        try:
            ending = _wait(process, watch, stall_seconds, on_progress, interrupted)
        finally:
            exit_code = process.poll()
            # An interrupt makes Python print a traceback and the probe write its events.
            asks = [signal.SIGTERM] if ending == "enough" else [signal.SIGINT, signal.SIGTERM]
            end_all(process, str(path), asks=asks, wait_seconds=_INTERRUPT_SECONDS)
            pump.join(_INTERRUPT_SECONDS)
            process.stdout.close()
        watch.read()
    if watch.stopped or (watch.stop_requested and ending == "finished"):
        ending = "time_limit" if watch.time_limited else "enough"
    return MeasuredRun(
        events=tuple(watch.log.events),
        started=started,
        ending=ending,
        exit_code=exit_code,
        log=log,
        startup=watch.startup(),
        memory=watch.startup_watch.memory,
        oom_killed=watch.startup_watch.memory_watch.oom_killed,
    )


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="trainfare-")
    except OSError as error:
        raise UsageError(
            f"no folder for temporary files can be written ({error.strerror or error}). "
            "Set TMPDIR to one that can, or free some space in it."
        ) from error


def _environment(
    events: Path, iterations: int | None, stopping_rule: StoppingRule, trace_operations: bool
) -> dict[str, str]:
    """The environment of the user with the probe first on PYTHONPATH."""
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": str(PROBE_SITE) + (os.pathsep + path if path else ""),
        boot.EVENTS: str(events),
        boot.ITERATIONS: str(iterations or 0),
        boot.OPERATIONS: "1" if trace_operations else "0",
        boot.BY_LOSS: "1" if iterations is None and isinstance(stopping_rule, UntilStable) else "0",
    }


def _start(
    program: Program, directory: Path, prefix: Sequence[str], environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            (*prefix, *program.command),
            cwd=directory,
            env=environment | {"PWD": str(directory)},
            # A new session has no terminal to read from.
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if str(error.filename) == str(directory):
            raise UsageError(f"there is no folder {directory} to run the program in.", field="directory") from error
        raise UsageError(
            f"there is no command {program.command[0]}. Check its spelling, or give its path.",
            field="command",
            remedies=[Remedy(command="profile", program="python train.py")],
        ) from error
    except PermissionError as error:
        if Path(directory, program.command[0]).is_dir():
            raise UsageError(
                f"{program.command[0]} is a folder, not a command.",
                field="command",
                remedies=[Remedy(command="profile", program="python train.py")],
            ) from error
        raise UsageError(
            f"{program.command[0]} is not executable. Make it executable with chmod +x, or name the interpreter.",
            field="command",
            remedies=[Remedy(command="profile", program=f"python {program.command[0]}")],
        ) from error
    except OSError as error:
        raise UsageError(
            f"{program.command[0]} could not be started: {error.strerror}. If it is a script, name the interpreter.",
            field="command",
            remedies=[Remedy(command="profile", program=f"python {program.command[0]}")],
        ) from error


@dataclass(slots=True)
class _EventWatcher:
    """Reads the events as they are written and requests the stop when the stopping rule is met."""

    path: Path
    log: EventLog
    started: float
    iterations: int | None
    stopping_rule: StoppingRule
    startup_watch: StartUpWatch
    deadline: float
    """The moment at which the program is ended, whatever it does."""
    last_event_at: float = 0.0
    stop_requested: bool = False
    time_limited: bool = False
    """The stop was requested because the time limit was near."""
    _offset: int = 0

    def read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete_lines = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete_lines)
        if found := parse_events(complete_lines):
            self.last_event_at = time.monotonic()
            self.log.add(found)

    @property
    def stopped(self) -> bool:
        return self.log.stopped

    @property
    def training_processes_ended(self) -> bool:
        """Every process that trained has ended."""
        return not any(map(is_running, self.log.iteration_counts))

    def startup(self) -> StartUp | None:
        """The state of a program without an iteration; None once one has ended."""
        if self.log.iteration_counts:
            return None
        return self.startup_watch.state(self.log.events, time.monotonic() - self.started)

    def progress(self) -> MeasurementProgress:
        self.startup_watch.read_memory(training=bool(self.log.iteration_counts))
        return MeasurementProgress(
            profile=self.log.profile(self.started),
            target_iterations=self.iterations,
            stopping_rule=self.stopping_rule,
            seconds=time.monotonic() - self.started,
            framework=self.log.framework,
            stopping=self.stopped or self.stop_requested,
            startup=self.startup(),
        )

    def request_stop_if_met(self, profile: Profile | None) -> None:
        """Tell the program to stop, once, when the stopping rule is met or the time limit is near."""
        if self.iterations is not None or self.stop_requested or self.stopped or profile is None:
            return
        now = time.monotonic()
        first_ended = self.started + (profile.init_seconds or 0.0) + profile.iteration_seconds[0]
        several = len(profile.iteration_seconds) > 1
        self.time_limited = several and now + self.log.stop_seconds(profile) >= self.deadline
        if self.time_limited or self.stopping_rule.is_met(profile, now - first_ended):
            self.stop_requested = True
            temporary = self.path.with_suffix(".telling")
            temporary.write_text(self.log.stop_text(profile))
            temporary.replace(f"{self.path}{STOP_FILE_SUFFIX}")


@dataclass(slots=True)
class _Shutdown:
    """The end of a program that the probe has stopped."""

    pid: int
    _stopped_at: float | None = None
    _ended_at: float | None = None
    _shell_paused: bool = False

    def is_over(self, watch: _EventWatcher, now: float) -> bool:
        """True once the processes that trained have ended, or have had enough time to."""
        if self._stopped_at is None:
            self._stopped_at, self._shell_paused = now, pause_shell(self.pid)
        if self._ended_at is None and watch.training_processes_ended:
            self._ended_at = now
        if self._ended_at is not None and (self._shell_paused or now - self._ended_at > _LAUNCHER_SECONDS):
            return True
        return now - self._stopped_at > _SHUTDOWN_SECONDS


def _wait(
    process: "subprocess.Popen[bytes]",
    watch: _EventWatcher,
    stall_seconds: float,
    on_progress: Callable[[MeasurementProgress], None],
    interrupted: Callable[[], bool],
) -> Ending:
    """Wait until the program ends or must be ended."""
    watch.last_event_at = time.monotonic()
    next_progress_at, shutdown, hopeless = 0.0, _Shutdown(process.pid), False
    while True:
        ended = process.poll() is not None
        watch.read()
        now = time.monotonic()
        if now >= next_progress_at or ended:
            progress = watch.progress()
            on_progress(progress)
            watch.request_stop_if_met(progress.profile)
            hopeless = progress.startup is not None and progress.startup.certainly_too_large
            # After 100 000 iterations this takes 0.7 s, so it is done less often to not slow the program.
            next_progress_at = now + max(_PROGRESS_SECONDS, 20 * (time.monotonic() - now))
        if ended:
            return "finished" if process.returncode == 0 else "failed"
        if interrupted():
            return "interrupted"
        if now >= watch.deadline:
            return "time_limit"
        if watch.stopped:
            if shutdown.is_over(watch, now):
                return "enough"
        elif hopeless:
            return "failed"
        elif now - watch.last_event_at > stall_seconds:
            return "stalled"
        time.sleep(_POLL_SECONDS)


@contextmanager
def _interrupt_requests() -> Iterator[Callable[[], bool]]:
    """A function that returns True once Ctrl-C or SIGTERM was received; no exception is raised.

    A `KeyboardInterrupt` can be raised between any two lines; inside `Popen.poll` it once left a lock taken for ever.
    Only the main thread may handle signals, and a signal that the caller ignores stays ignored.
    """
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
