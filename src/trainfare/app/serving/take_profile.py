"""Works on one task, in a process of its own: `python -m trainfare.app.serving.take_profile TASK`.

Profiling needs the main thread of a process, for signals, and a server must not share a process with it. The process
holds the lease of the task. If it is killed, the lease runs out and another one begins anew.
"""

import os
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command
from trainfare.app.programs.sources import ProgramSource
from trainfare.clouds.sandbox import sandbox_prefix
from trainfare.errors import TrainfareError
from trainfare.model.lease import Lease
from trainfare.model.task import Task, TaskEvent, TaskEventKind, task_lease_name
from trainfare.profiler.measure import MeasurementProgress
from trainfare.settings import Settings, read_settings
from trainfare.store.history import History, StaleLeaseError
from trainfare.store.open import open_existing_history

LEASE_SECONDS = 30.0
STARTS = 3
"""A task whose process was killed so often is given up."""
_REPORT_SECONDS = 1.0


class _CancelledError(KeyboardInterrupt):
    """The user asked for the end; the profiler takes it for an interrupt."""


class _Attempt:
    """Reports the progress of a task, and keeps its lease."""

    def __init__(self, history: History, task: Task, lease: Lease) -> None:
        self._history, self._task, self._lease = history, task, lease
        self._reported = 0.0

    def report(self, kind: TaskEventKind, **values: object) -> None:
        event = TaskEvent(task_id=self._task.id, number=0, seen_at=datetime.now(UTC), kind=kind, **values)  # type: ignore[arg-type] # each is a field of the event
        self._history.task_events.append(event, lease=self._lease)

    def progress(self, measured: MeasurementProgress) -> None:
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        self._lease = self._history.leases.renew(self._lease, LEASE_SECONDS, datetime.now(UTC))
        if any(event.kind == "cancel asked" for event in self._history.task_events.of(self._task.id)):
            raise _CancelledError
        profile = measured.profile
        last = profile.iteration_seconds[-1] if profile and profile.iteration_seconds else None
        text = (
            f"{measured.iterations:,} iterations measured"
            if measured.iterations
            else f"The program has run for {measured.seconds:.0f} s and has not finished its first iteration."
        )
        self.report("progress", text=text, iterations=measured.iterations, iteration_seconds=last)


def work_on(task_id: str, settings: Settings) -> None:
    """Take the lease of a task and profile its program. Nothing happens if another process has it."""
    holder = f"{socket.gethostname()}/{os.getpid()}"
    with open_existing_history(settings.store) as history:
        task = history.tasks.get(task_id)
        lease = history.leases.take(
            task_lease_name(task_id), holder=holder, seconds=LEASE_SECONDS, now=datetime.now(UTC)
        )
        if lease is None:
            return
        try:
            _take(history, task, lease, settings)
        except StaleLeaseError:
            return  # another process goes on with it
        finally:
            history.leases.release(lease)


def _take(history: History, task: Task, lease: Lease, settings: Settings) -> None:
    attempt = _Attempt(history, task, lease)
    events = history.task_events.of(task.id)
    if sum(event.kind == "started" for event in events) >= STARTS:
        attempt.report(
            "failed", text=f"Its process was ended {STARTS} times. Perhaps this machine has too little memory."
        )
        return
    attempt.report("started", text="The program is starting.")
    options = ProfileOptions(
        settings=settings,
        batch_size=task.batch_size,
        samples=task.samples,
        steps=task.steps,
        max_seconds=task.max_seconds,
        on_progress=attempt.progress,
        sandbox=sandbox_prefix() if task.sandboxed else None,
    )
    source = ProgramSource(program=task.program, results=Path(task.program.directory))
    try:
        profile = profile_command(source, options)
    except _CancelledError:
        attempt.report("cancelled", text="It was cancelled.")
    except TrainfareError as error:
        attempt.report("failed", text=error.message, argument=error.field)
    else:
        kind = "cancelled" if any(e.kind == "cancel asked" for e in history.task_events.of(task.id)) else "succeeded"
        if kind == "cancelled":
            attempt.report("cancelled", text="It was cancelled.")
        else:
            attempt.report("succeeded", text="The profile is ready.", profile_id=profile.id)


if __name__ == "__main__":
    work_on(sys.argv[1], read_settings())
