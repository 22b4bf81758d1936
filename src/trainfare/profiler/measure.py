"""The door to a process: one run of the program under the probe.

The program runs in a session of its own, in the directory that it is given (`workspace.py` makes one). Its output
goes to whoever wants it and into a bounded log. When measuring ends, everything that it started is ended.

The probe itself stops after a number of iterations. Any other end is decided here, from the events so far, and told
to every process through a file.
"""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from trainfare.errors import UsageError
from trainfare.model.machine import Host
from trainfare.model.profile import Ending, Profile
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.probe.stop import TOLD_SUFFIX
from trainfare.profiler.command import flag_that_keeps_us_out
from trainfare.profiler.stopping import STEADY, Until, UntilStable
from trainfare.profiler.events import Event, parse_events, profile_of
from trainfare.profiler.output import Log, Pump
from trainfare.profiler.processes import end_all, hold_shell, is_running

PROBE_SITE = Path(boot.__file__).parent / "site"

_POLL_SECONDS = 0.05
_PROGRESS_SECONDS = 0.25
_GRACE_SECONDS = 10.0
"""So long may a program that was told to stop take to end: `finally` blocks, loggers, other ranks."""
_LAUNCHER_SECONDS = 3.0
"""So long may a launcher (`torchrun`) take to notice that what it launched has ended."""
_INTERRUPT_SECONDS = 3.0
_TELLING_SECONDS = 0.5
"""The probe writes every 0.2 s and looks whether it is told every 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a running measurement stands."""

    seen: Profile | None
    """What a profile would hold if it ended now; None before the first iteration."""
    iterations_wanted: int | None
    until: Until
    """What is waited for, where no number of iterations is."""
    seconds: float
    """Since the program was started."""
    framework: str | None
    stopping: bool

    @property
    def iterations(self) -> int:
        return len(self.seen.iteration_seconds) if self.seen else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run left behind."""

    events: tuple[Event, ...]
    started: float
    """On the clock of the events."""
    ending: Ending
    exit_code: int | None
    """None where we ended it."""
    log: Log


def measure(
    program: Program,
    *,
    iterations: int | None = None,
    until: Until = STEADY,
    directory: Path | None = None,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    stall_seconds: float,
    trace_operations: bool,
    gradient_noise: bool = False,
    operator_times: bool = False,
    on_progress: Callable[[Progress], None],
    on_output: Callable[[bytes], None] | None,
) -> Measured:
    """Run the program until `iterations` were measured, where they are given, else as long as `until` says; or until
    it ends, stands still or is interrupted. `directory` is where it runs, if not in its own; `prefix` stands before its
    command and `environment` beside ours, where it runs in a part of this machine."""
    flag = flag_that_keeps_us_out(program.command)
    if flag is not None:
        raise UsageError(
            f"`{program.command_line}` cannot be profiled: with {flag} Python ignores PYTHONPATH or its site hooks, "
            f"which is how the probe gets in. Drop {flag} from the command; the program itself need not change."
        )
    with _temporary_folder() as folder, _interrupts() as interrupted:
        path = Path(folder) / "events.jsonl"
        path.touch()
        log = Log()
        started = time.monotonic()
        process = _start(
            program,
            directory or Path(program.directory),
            prefix,
            {
                **_environment(path, iterations, until, trace_operations),
                boot.GRADIENT_NOISE: "1" if gradient_noise else "0",
                boot.OPERATOR_TIMES: "1" if operator_times else "0",
                **(environment or {}),
            },
        )
        assert process.stdout is not None  # noqa: S101 # a pipe was asked for
        pump = Pump(process.stdout.fileno(), log, on_output)
        pump.start()
        watch = _Watch(path, program, started, iterations, until)
        ending: Ending = "interrupted"
        try:
            ending = _wait(process, watch, stall_seconds, on_progress, interrupted)
        finally:
            exit_code = process.poll()
            # An interrupt makes Python show where it stood, and the probe write what it has.
            ask = signal.SIGTERM if ending == "enough" else signal.SIGINT
            end_all(process, str(path), ask=ask, wait_seconds=_INTERRUPT_SECONDS)
            pump.join(_INTERRUPT_SECONDS)
            process.stdout.close()
        watch.read()
    if watch.stopped or (watch.told and ending == "finished"):
        ending = "enough"
    return Measured(events=tuple(watch.events), started=started, ending=ending, exit_code=exit_code, log=log)


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="trainfare-")
    except OSError as error:
        raise UsageError(
            f"there is no folder for temporary files that can be written ({error.strerror or error}). "
            "Name one with TMPDIR=/path, or make room in it."
        ) from error


def _environment(events: Path, iterations: int | None, until: Until, trace_operations: bool) -> dict[str, str]:
    """The user's own, with the probe in front of their PYTHONPATH."""
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": str(PROBE_SITE) + (os.pathsep + path if path else ""),
        boot.EVENTS: str(events),
        boot.ITERATIONS: str(iterations or 0),
        boot.OPERATIONS: "1" if trace_operations else "0",
        boot.BY_LOSS: "1" if iterations is None and isinstance(until, UntilStable) else "0",
    }


def _start(
    program: Program, directory: Path, prefix: Sequence[str], environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            (*prefix, *program.command),
            cwd=directory,
            env=environment | {"PWD": str(directory)},
            # A session of its own has no terminal to read from.
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if str(error.filename) == str(directory):
            raise UsageError(f"there is no folder {directory} to run the program in.") from error
        raise UsageError(
            f"there is no command {program.command[0]}. Check its spelling, or give its path; "
            "the command comes after our own options: trainfare profile -- python train.py"
        ) from error
    except PermissionError as error:
        raise UsageError(
            f"{program.command[0]} may not be executed. Make it executable with chmod +x, "
            f"or name what runs it: trainfare profile -- python {program.command[0]}"
        ) from error
    except OSError as error:
        raise UsageError(
            f"{program.command[0]} could not be started: {error.strerror}. "
            f"If it is a script, name what runs it: trainfare profile -- python {program.command[0]}"
        ) from error


@dataclass(slots=True)
class _Watch:
    """Reads the events as they are written, and tells the program to stop when they are enough."""

    path: Path
    program: Program
    started: float
    iterations: int | None
    until: Until
    events: list[Event] = field(default_factory=list)
    heard_at: float = 0.0
    told: bool = False
    _offset: int = 0
    _kinds: set[str] = field(default_factory=set)
    _counts: Counter[int] = field(default_factory=Counter)
    """Iterations of each process that trains."""
    _framework: str | None = None

    def read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for event in parse_events(whole):
            self.heard_at = time.monotonic()
            self._note(event)

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self._kinds.add(event["event"])
        if event["event"] == "iteration":
            self._counts[event["pid"]] += 1
        elif event["event"] == "import":
            self._framework = self._framework or event["name"]

    @property
    def stopped(self) -> bool:
        return "stop" in self._kinds

    @property
    def trainers_ended(self) -> bool:
        """Every process that trained has gone."""
        return not any(map(is_running, self._counts))

    def progress(self) -> Progress:
        return Progress(
            seen=self._so_far() if self._counts else None,
            iterations_wanted=self.iterations,
            until=self.until,
            seconds=time.monotonic() - self.started,
            framework=self._framework,
            stopping=self.stopped or self.told,
        )

    def decide(self, seen: Profile | None) -> None:
        """Tell the program to stop once, when enough was seen."""
        if self.iterations is not None or self.told or self.stopped or seen is None:
            return
        first_ended = self.started + (seen.init_seconds or 0.0) + seen.iteration_seconds[0]
        if self.until.enough(seen, time.monotonic() - first_ended):
            self.told = True
            # Processes that train together wait for each other: they must all stop after the same iteration.
            ahead = math.ceil(_TELLING_SECONDS / seen.iteration_seconds[-1]) + 1
            words = str(max(self._counts.values()) + ahead) if len(self._counts) > 1 else ""
            fresh = self.path.with_suffix(".telling")
            fresh.write_text(words)
            fresh.replace(f"{self.path}{TOLD_SUFFIX}")

    def _so_far(self) -> Profile:
        return profile_of(
            self.events,
            id="so far",
            program=self.program,
            host=Host(name="here"),
            measured_at=datetime.now(UTC),
            ending="enough",
            started=self.started,
        )


def _wait(
    process: "subprocess.Popen[bytes]",
    watch: _Watch,
    stall_seconds: float,
    on_progress: Callable[[Progress], None],
    interrupted: Callable[[], bool],
) -> Ending:
    """Until the program ends or is to be ended."""
    watch.heard_at = time.monotonic()
    looking_at, stopped_at, ended_at, held = 0.0, None, None, False
    while True:
        ended = process.poll() is not None
        watch.read()
        now = time.monotonic()
        if now >= looking_at or ended:
            progress = watch.progress()
            on_progress(progress)
            watch.decide(progress.seen)
            # After 100 000 iterations a look takes 0.7 s: the program shall not feel it.
            looking_at = now + max(_PROGRESS_SECONDS, 20 * (time.monotonic() - now))
        if ended:
            return "finished" if process.returncode == 0 else "failed"
        if interrupted():
            return "interrupted"
        if stopped_at is None and watch.stopped:
            stopped_at, held = now, hold_shell(process.pid)
        if stopped_at is not None:
            if ended_at is None and watch.trainers_ended:
                ended_at = now
            if ended_at is not None and (held or now - ended_at > _LAUNCHER_SECONDS):
                return "enough"
            if now - stopped_at > _GRACE_SECONDS:
                return "enough"
        elif now - watch.heard_at > stall_seconds:
            return "stalled"
        time.sleep(_POLL_SECONDS)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or a SIGTERM came; only asked, never raised.

    A `KeyboardInterrupt` can come between any two lines: raised inside `Popen.poll` it once left a lock taken for ever.
    Only the main thread may listen to signals, and one that the caller ignores stays ignored.
    """
    seen: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
