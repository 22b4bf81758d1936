"""The door to a process: one run of the program under the probe.

The program runs in a session of its own, in its own directory, on its own files: nothing is copied, and what it
writes it writes. Its output goes to whoever wants it and into a bounded log. When measuring ends, everything that
it started is ended.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import FrameType

from trainfare.errors import AskedWrongly
from trainfare.model.profile import Ending
from trainfare.model.program import Program
from trainfare.probe import boot
from trainfare.profiler.command import flag_that_keeps_us_out
from trainfare.profiler.events import Event, parse_events
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
_RECENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a running measurement stands."""

    iterations: int
    wanted: int
    seconds: float
    """Since the program was started."""
    iteration_seconds: float | None
    """Median of the last ones, validation included; None before the second."""
    framework: str | None
    validated: bool
    loader: bool
    stopping: bool


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
    iterations: int,
    stall_seconds: float,
    trace_operations: bool,
    on_progress: Callable[[Progress], None],
    on_output: Callable[[bytes], None] | None,
) -> Measured:
    """Run the program until `iterations` were measured, or until it ends, stands still or is interrupted."""
    flag = flag_that_keeps_us_out(program.command)
    if flag is not None:
        raise AskedWrongly(
            f"`{program.command_line}` cannot be profiled: with {flag} Python ignores PYTHONPATH or its site hooks, "
            f"which is how the probe gets in. Drop {flag} from the command; the program itself need not change."
        )
    with tempfile.TemporaryDirectory(prefix="trainfare-") as folder, _interrupts() as interrupted:
        path = Path(folder) / "events.jsonl"
        path.touch()
        log = Log()
        started = time.monotonic()
        process = _start(program, _environment(path, iterations, trace_operations))
        assert process.stdout is not None  # noqa: S101 # a pipe was asked for
        pump = Pump(process.stdout.fileno(), log, on_output)
        pump.start()
        watch = _Watch(path, started, iterations)
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
    if watch.stopped:
        ending = "enough"
    return Measured(events=tuple(watch.events), started=started, ending=ending, exit_code=exit_code, log=log)


def _environment(events: Path, iterations: int, trace_operations: bool) -> dict[str, str]:
    """The user's own, with the probe in front of their PYTHONPATH."""
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": str(PROBE_SITE) + (os.pathsep + path if path else ""),
        boot.EVENTS: str(events),
        boot.ITERATIONS: str(iterations),
        boot.OPERATIONS: "1" if trace_operations else "0",
    }


def _start(program: Program, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            program.command,
            cwd=program.directory,
            env=environment,
            # A session of its own has no terminal to read from.
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if error.filename == program.directory:
            raise AskedWrongly(f"there is no folder {program.directory} to run the program in.") from error
        raise AskedWrongly(
            f"there is no command {program.command[0]}. Check its spelling, or give its path; "
            "the command comes after our own options: trainfare profile -- python train.py"
        ) from error
    except PermissionError as error:
        raise AskedWrongly(
            f"{program.command[0]} may not be executed. Make it executable with chmod +x, "
            f"or name what runs it: trainfare profile -- python {program.command[0]}"
        ) from error
    except OSError as error:
        raise AskedWrongly(
            f"{program.command[0]} could not be started: {error.strerror}. "
            f"If it is a script, name what runs it: trainfare profile -- python {program.command[0]}"
        ) from error


@dataclass(slots=True)
class _Watch:
    """Reads the events as they are written."""

    path: Path
    started: float
    wanted: int
    events: list[Event] = field(default_factory=list)
    heard_at: float = 0.0
    _offset: int = 0
    _kinds: set[str] = field(default_factory=set)
    _spans: dict[int, list[float]] = field(default_factory=dict)
    """Of each process that trains."""
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
            self._spans.setdefault(event["pid"], []).append(event["end"] - event["start"])
        elif event["event"] == "import":
            self._framework = self._framework or event["name"]

    @property
    def stopped(self) -> bool:
        return "stop" in self._kinds

    @property
    def trainers_ended(self) -> bool:
        """Every process that trained has gone."""
        return not any(map(is_running, self._spans))

    def progress(self) -> Progress:
        spans = max(self._spans.values(), key=len, default=[])
        recent = spans[1:][-_RECENT:]
        return Progress(
            iterations=len(spans),
            wanted=self.wanted,
            seconds=time.monotonic() - self.started,
            iteration_seconds=median(recent) if recent else None,
            framework=self._framework,
            validated="window" in self._kinds,
            loader="loader" in self._kinds,
            stopping=self.stopped,
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
    shown_at, stopped_at, ended_at, held = 0.0, None, None, False
    while True:
        ended = process.poll() is not None
        watch.read()
        now = time.monotonic()
        if now - shown_at >= _PROGRESS_SECONDS or ended:
            on_progress(watch.progress())
            shown_at = now
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
