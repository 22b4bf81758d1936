"""One probe on a machine behind a door: launch it, send the program, follow its events, and end the machine.

A probe is a launch like that of a run, but of no run in the store. Nothing of it is worth continuing after this process
has died, so the lease on the machine is short and renewed as long as someone follows it. What a killed process left
behind ends by itself at the end of that lease, and the reaper removes it.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal

from trainfare.agent.agent import MARKER
from trainfare.app.catalog.own_hosts import describe_host
from trainfare.app.probing.ledger import Ledger
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.running.send import ProgramSending
from trainfare.app.running.supervise import reached
from trainfare.clouds import driver
from trainfare.clouds.door import Door, Launch, MachineUnreachableError, RefusedError, Shell
from trainfare.errors import ExternalError, ProgramError
from trainfare.model.machine import Host
from trainfare.model.profile import Ending
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Run
from trainfare.profiler.elsewhere import EVENTS_FILE, STOP_FILE, DistantMeasurement, probed_command
from trainfare.profiler.measure import MeasuredRun, MeasurementProgress
from trainfare.profiler.output import Log
from trainfare.runner.life import Life
from trainfare.settings import Settings
from trainfare.units import format_duration, format_usd

ProbeStage = Literal["waiting", "launching", "queued", "sending", "setting up", "measuring", "ending", "ended"]

LEASE_SECONDS = 90.0
"""The machine of a probe ends this long after the last sign of life from here."""
SENDING_SECONDS = 900.0
"""The lease until the program is sent: longer, because nothing renews it meanwhile."""
SETUP_SECONDS = 1800.0
"""The longest time for setup: installing the packages of a program may take minutes, once for each machine."""
ENDING_SECONDS = 15.0
"""Money is claimed for this much more time than the lease lasts: for ending the machine."""
FEWEST_SECONDS = 60.0
"""A probe of unknown length is not started with money for less time than this."""
POLL_SECONDS = 1.0
"""The pause between two looks; twice as long while iterations are measured. A look takes 20 ms of one core of the
machine."""
UNREACHABLE_SECONDS = 60.0
"""A machine that does not answer for so long is given up."""
SILENT_SECONDS = 30.0
"""An agent that writes nothing for so long may have ended with a reboot of its machine: it is started again, and
records that."""
_STOPPED_SECONDS = 5.0
"""The time for a program to end after the probe has stopped it: other processes, `finally` blocks."""
_OUTPUT_BYTES = 1 << 16
_ENDING_TRIES = 4
_PART_SECONDS = 5.0
"""The program is sent for so long at a time."""

_CLOCKS = 'exec "$(command -v python3 || command -v python)" -I -c "import time; print(time.time() - time.monotonic())"'
_NEWS = f"""
part() {{
    size=0; [ -f "$1" ] && size=$(wc -c < "$1")
    first=$2; [ $((size - first)) -gt "$3" ] && [ "$4" = last ] && first=$((size - $3))
    count=$((size - first)); [ "$count" -gt "$3" ] && count=$3; [ "$count" -lt 0 ] && count=0
    echo $((first + count)) $((count))
    [ "$count" -gt 0 ] && tail -c "+$((first + 1))" "$1" | head -c "$count"
}}
part {EVENTS_FILE} "$1" {1 << 20} first
part output "$2" {_OUTPUT_BYTES} last
journal=0; [ -f journal.jsonl ] && journal=$(wc -c < journal.jsonl)
started=0; [ -f {EVENTS_FILE} ] && started=1
ended=0; [ -f results.json ] && ended=1
echo $((journal)) $started $ended
"""
"""Everything that is new, in one command: each command takes some hundredths of a second of the machine's time."""


class NotAffordableError(ExternalError):
    """The money that is left is not enough for this probe, which was not started."""


class ProbeCancelledError(ExternalError):
    """The user interrupted the probes before the program of this one was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStatus:
    """The present stage of a probe."""

    machine: str
    stage: ProbeStage
    progress: MeasurementProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredElsewhere:
    """The events of a program on another machine, and the machine by its own words."""

    run: MeasuredRun
    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """The events since the last time, and what the machine says about the program."""

    events: bytes
    is_all: bool
    """There was no event."""
    journal_bytes: int
    started: bool
    ended: bool


@dataclass(slots=True)
class _Watch:
    """Since when something is the case, on the clock of the ledger; None if it is not."""

    asked: float
    answered: float
    """The machine answered last."""
    heard: float
    """The program was heard last."""
    journal_grew: float
    renewed: float
    started: float | None = None
    stopped: float | None = None
    journal_bytes: int = -1


@dataclass(slots=True, kw_only=True)
class DistantProbe:
    """One probe; `take` carries it out."""

    door: Door
    run: Run
    """The program and the machine, as a run that is not stored."""
    options: ProfileOptions
    settings: Settings
    ledger: Ledger
    cancelled: threading.Event
    expected_seconds: float | None = None
    """The time that the probe is expected to take; None if it is unknown."""
    on_status: Callable[[ProbeStatus], None] = lambda _status: None
    left_behind: str | None = None
    """A sentence if the machine could not be ended."""
    usd: float = 0.0
    seconds: float = 0.0
    """From the launch of the machine to its end."""
    remark: str | None = None
    """A sentence about the end of the program that its output does not show."""
    program_seconds: float = 0.0
    """The time that the program ran."""
    _until: float = 0.0
    """The moment until which money is claimed."""
    _log: Log = field(default_factory=Log)
    _events_read: int = 0
    _output_read: int = 0

    def take(self) -> MeasuredElsewhere:
        """Measure the program there. Whatever happens, the machine is asked to end."""
        self._show("waiting")
        with self._money(), self._machine() as machine:
            shell = self.door.shell(machine)
            host = describe_host(shell, vm_type=machine.vm_type)
            clocks = _clock_difference(shell)
            measurement = DistantMeasurement(
                program=self.run.program,
                iterations=self.options.target_iterations(self.settings.iterations),
                stopping_rule=self.options.stopping_rule,
                trace_operations=self.options.trace_operations,
            )
            self._send(shell, machine, measurement)
            reached("probe sent")
            ending = self._follow(shell, measurement)
            reached("probe measured")
            return MeasuredElsewhere(run=self._conclude(shell, measurement, ending, clocks), host=host)

    # The machine.

    @contextmanager
    def _money(self) -> Iterator[None]:
        """Claim money for the machine, and settle it when the machine has ended."""
        price = self.run.candidate.usd_per_hour
        least = max(FEWEST_SECONDS if self.expected_seconds is None else self.expected_seconds, 2 * ENDING_SECONDS)
        until = self.ledger.claim(self.run.id, price, seconds=SENDING_SECONDS + ENDING_SECONDS, least=least)
        if until is None:
            raise NotAffordableError(
                f"it was not started: {format_duration(least)} at {format_usd(price)} an hour are more than what is "
                "left of the budget."
            )
        self._until, began = until, self.ledger.clock()
        try:
            yield
        finally:
            self.usd = self.ledger.settle(self.run.id)
            self.seconds = self.ledger.clock() - began

    @contextmanager
    def _machine(self) -> Iterator[RentedMachine]:
        """The machine, once it is ready. It is ended after the block, also if the launch itself failed: then it may
        exist all the same."""
        self._check_cancelled()
        launch = Launch(
            owner=self.run.owner,
            run_id=self.run.id,
            attempt=1,
            candidate=self.run.candidate,
            expires_at=self._lease_end() if self.door.extends_leases else self._last_end(),
        )
        self._show("launching")
        try:
            self.door.launch(launch)
        except RefusedError:
            raise  # nothing exists
        except ExternalError:
            self._end(launch.key)
            raise
        reached("probe launched")
        try:
            yield self._wait_until_ready(launch)
        finally:
            self._show("ending")
            self._end(launch.key)

    def _wait_until_ready(self, launch: Launch) -> RentedMachine:
        while True:
            self._check_cancelled()
            machine = next(iter(self.door.machines(launch.key)), None)
            if machine is not None and machine.state == "ready":
                return machine
            if machine is not None and machine.state == "queued":  # which costs nothing
                self._show("queued")
                self._until = self.ledger.postpone(self.run.id, SENDING_SECONDS + ENDING_SECONDS)
            elif machine is not None and machine.state != "booting":
                raise ExternalError(f"the machine is {machine.state}: {machine.reason or 'no reason is given'}.")
            if self.ledger.clock() >= self._until - ENDING_SECONDS:
                raise ExternalError("the machine did not get ready in time.")
            self.cancelled.wait(POLL_SECONDS)

    def _end(self, key: str) -> None:
        """End the machine and confirm it. What cannot be ended now ends with its lease, and is left to the reaper."""
        reason = "it is still listed"
        for attempt in range(_ENDING_TRIES):
            try:
                self.door.terminate(key)
                reached("probe terminated")
                if self._is_gone(key):
                    return
            except ExternalError as error:
                reason = str(error)
            if attempt < _ENDING_TRIES - 1:
                time.sleep(POLL_SECONDS * 2**attempt)
        self.left_behind = (
            f"{key} could not be ended: {reason} Its program ends by itself within {format_duration(LEASE_SECONDS)}, "
            "and `trainfare reap` removes the rest."
        )

    def _is_gone(self, key: str) -> bool:
        """The machine is not known here any more, or its door does not list it. Once it is forgotten, listing it would
        ask every host, also those that do not answer."""
        return all(machine.key != key for machine in self.door.known_machines()) or not self.door.machines(key)

    # The program.

    def _send(self, shell: Shell, machine: RentedMachine, measurement: DistantMeasurement) -> None:
        """Send the program and start it; from now on the lease is short."""
        self._check_cancelled()
        self._show("sending")
        wrap = partial(
            probed_command,
            launch_variable=MARKER,
            iterations=measurement.iterations,
            stopping_rule=measurement.stopping_rule,
            trace_operations=self.options.trace_operations,
            gradient_noise=self.options.gradient_noise,
            operator_times=self.options.operator_times,
        )
        sending = ProgramSending(run=self.run, life=Life(), machine=machine, power_off=self.door.powers_off, wrap=wrap)
        while not sending.advance(shell, seconds=_PART_SECONDS):
            self._check_cancelled()
        sending.start(shell)
        self._until = min(self._until, self.ledger.clock() + LEASE_SECONDS + ENDING_SECONDS)
        driver.renew(shell, self._lease_end())
        self.ledger.change(self.run.id, self._until)

    def _follow(self, shell: Shell, measurement: DistantMeasurement) -> Ending | None:
        """Follow the program until it has ended (None), or until it must be ended, and why."""
        now = self.ledger.clock()
        watch = _Watch(asked=now, answered=now, heard=now, journal_grew=now, renewed=now)
        while not self.cancelled.is_set():
            try:
                news = self._fetch(shell)
                watch.answered = self.ledger.clock()
                self._note(news, measurement, watch)
                if news.ended:
                    return None
                self._attend(shell, measurement, watch)
            except MachineUnreachableError as error:
                if self.ledger.clock() - watch.answered > UNREACHABLE_SECONDS:
                    if not measurement.log.iteration_counts:
                        raise
                    self.remark = str(error)
                    return "failed"
            if ending := self._reason_to_end(measurement, watch):
                return ending
            self.cancelled.wait(POLL_SECONDS * (2 if measurement.log.iteration_counts else 1))
        return "interrupted"

    def _note(self, news: _News, measurement: DistantMeasurement, watch: _Watch) -> None:
        now = watch.answered
        if news.started and watch.started is None:
            watch.started = watch.heard = now
        if measurement.add(news.events):
            watch.heard = now
        if measurement.stopped and watch.stopped is None:
            watch.stopped = now
        if news.journal_bytes != watch.journal_bytes:
            watch.journal_bytes, watch.journal_grew = news.journal_bytes, now

    def _attend(self, shell: Shell, measurement: DistantMeasurement, watch: _Watch) -> None:
        """Show the progress, renew the lease, and do what is to be done on the machine."""
        now = watch.answered
        progress = measurement.progress(now - (watch.started or watch.asked))
        self._show("setting up" if watch.started is None else "measuring", progress)
        self._until = self.ledger.change(self.run.id, now + LEASE_SECONDS + ENDING_SECONDS)
        if now - watch.renewed > LEASE_SECONDS / 4:
            driver.renew(shell, self._lease_end())
            watch.renewed = now
        text = measurement.stop_request(progress.profile, seconds_left=self._seconds_left(watch))
        if text is not None:
            shell.write(STOP_FILE, text.encode())
        if now - watch.journal_grew > SILENT_SECONDS:
            watch.journal_grew = now
            driver.start(shell, secrets={})

    def _reason_to_end(self, measurement: DistantMeasurement, watch: _Watch) -> Ending | None:
        now = self.ledger.clock()
        if watch.started is None:
            if now - watch.asked > SETUP_SECONDS:
                raise ProgramError(f"its setup did not end within {format_duration(SETUP_SECONDS)}.")
            return "time_limit" if now >= self._until - ENDING_SECONDS else None
        if watch.stopped is not None:
            return "enough" if now - watch.stopped > _STOPPED_SECONDS else None
        if self._seconds_left(watch) <= 0:
            measurement.time_limited = True
            return "time_limit"
        return "stalled" if now - watch.heard > self.settings.stall_seconds else None

    def _seconds_left(self, watch: _Watch) -> float:
        """Until the longest time of the program is over, or the money for it. As long as the claim can be extended, the
        money is no limit."""
        now = self.ledger.clock()
        self.program_seconds = 0.0 if watch.started is None else now - watch.started
        lasts = self._until - ENDING_SECONDS - now
        by_money = math.inf if lasts > LEASE_SECONDS / 2 else lasts  # it is extended at every look
        longest = self.options.longest_seconds
        by_time = math.inf if longest is None else longest - self.program_seconds
        if by_money < by_time:
            self.remark = "the budget was used up."
        return min(by_money, by_time)

    def _fetch(self, shell: Shell) -> _News:
        done = shell.run(("sh", "-c", _NEWS, "sh", str(self._events_read), str(self._output_read)))
        try:
            self._events_read, events, rest = _part(done.output)
            self._output_read, output, rest = _part(rest)
            journal, started, ended = (int(word) for word in rest.split())
        except ValueError as error:
            raise ExternalError(f"the answer of the machine cannot be read: {done.error.decode()[-200:]}") from error
        self._log.add(output)
        return _News(events=events, is_all=not events, journal_bytes=journal, started=bool(started), ended=bool(ended))

    def _conclude(
        self, shell: Shell, measurement: DistantMeasurement, ending: Ending | None, clocks: float | None
    ) -> MeasuredRun:
        """The measurement; the rest of its events is read before the machine is ended."""
        entries: list[driver.JournalEntry] = []
        with suppress(MachineUnreachableError):
            while not (news := self._fetch(shell)).is_all:
                measurement.add(news.events)
            while found := driver.entries(shell, after=entries[-1].number if entries else 0):
                entries += found
        if (code := _value(entries, "setup", "exit_code")) is not None and code != 0:
            raise ProgramError(
                f"its setup ended with exit code {code}. The end of its output:\n\n{self._log.last_lines(25)}"
            )
        began = next((e.time for e in entries if e.kind == "program" and e.values.get("state") == "started"), None)
        exit_code = _value(entries, "program", "exit_code") if ending is None else None
        if ending is None:
            cause = _value(entries, "program", "cause")
            if cause == "signal":
                self.remark = _value(entries, "message", "text")
            in_time = cause in ("own", "signal", None)
            ending = "time_limit" if not in_time else "finished" if exit_code == 0 else "failed"
        if measurement.stopped or (measurement.stop_requested and ending == "finished"):
            ending = "time_limit" if measurement.time_limited else "enough"
        return MeasuredRun(
            events=tuple(measurement.events),
            started=measurement.started(None if began is None or clocks is None else began - clocks),
            ending=ending,
            exit_code=exit_code,
            log=self._log,
        )

    def _lease_end(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._until - ENDING_SECONDS - self.ledger.clock())

    def _last_end(self) -> datetime:
        """The end of all that a probe may do, for a machine whose lease cannot be extended later."""
        longest = self.options.longest_seconds or SETUP_SECONDS
        return datetime.now(UTC) + timedelta(seconds=SENDING_SECONDS + SETUP_SECONDS + longest)

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise ProbeCancelledError("it was interrupted before the program was started.")

    def _show(self, stage: ProbeStage, progress: MeasurementProgress | None = None) -> None:
        machine = self.run.candidate.offer.vm_type.key
        self.on_status(ProbeStatus(machine=machine, stage=stage, progress=progress))


def _clock_difference(shell: Shell) -> float | None:
    """The seconds by which the clock on the wall of the machine is ahead of the clock of the events."""
    done = shell.run(("sh", "-c", _CLOCKS))
    try:
        return float(done.output)
    except ValueError:
        return None


def _part(reply: bytes) -> tuple[int, bytes, bytes]:
    """The position up to which a file was read, its part, and the rest of the reply."""
    head, _, rest = reply.partition(b"\n")
    position, count = (int(word) for word in head.split())
    return position, rest[:count], rest[count:]


def _value(entries: Sequence[driver.JournalEntry], kind: str, name: str) -> Any:
    """A value of the last entry of a kind that has it; None if there is none."""
    return next((e.values[name] for e in reversed(entries) if e.kind == kind and name in e.values), None)
