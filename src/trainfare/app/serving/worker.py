"""Use case: the work of a server that no request waits for: tasks are taken up, and runs are attended.

Every process that serves a store does this. Leases in the store decide which of them acts, so a process can be killed
at any moment: what it did is taken up by another one, or by the next.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from trainfare.app.running.run import attend
from trainfare.app.serving.notices import NoticeSender
from trainfare.errors import TrainfareError
from trainfare.model.task import task_lease_name
from trainfare.runner.status import RunStatus
from trainfare.settings import NAMES, Settings
from trainfare.store.open import open_history

LOOK_SECONDS = 1.0
NOTICE_SECONDS = 5.0
TASKS_AT_ONCE = 1
"""Two profiles at once would disturb each other's clocks."""
RECENT = timedelta(minutes=10)
"""A run that was agreed to longer ago and never began is not begun by surprise."""

_log = logging.getLogger("trainfare.worker")


class _StoppingError(Exception):
    """The server ends."""


class BackgroundWorker:
    """A thread that looks for work, one thread for each run that it attends, and one process for each task."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._runs: dict[str, threading.Thread] = {}
        self._tasks: dict[str, subprocess.Popen[bytes]] = {}
        self._notices = NoticeSender(settings)
        self._threads = [threading.Thread(target=self._look_for_notices, name="notices", daemon=True)]
        self._thread = threading.Thread(target=self._look_for_work, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        if self._notices.has_places:
            for thread in self._threads:
                thread.start()

    def stop(self) -> None:
        """End all threads and wait for them; processes of tasks are asked to end, and the next server begins anew."""
        self._stopping.set()
        for process in self._tasks.values():
            process.terminate()
        for thread in (self._thread, *self._threads, *self._runs.values()):
            if thread.is_alive():
                thread.join(5.0)

    def _look_for_work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
            except TrainfareError as error:
                _log.warning("the store cannot be read: %s", error.message)
            self._stopping.wait(LOOK_SECONDS)

    def _look_for_notices(self) -> None:
        while not self._stopping.is_set():
            try:
                self._notices.look()
            except TrainfareError as error:
                _log.warning("notices cannot be looked for: %s", error.message)
            self._stopping.wait(NOTICE_SECONDS)

    def _look(self) -> None:
        now = datetime.now(UTC)
        self._runs = {run_id: thread for run_id, thread in self._runs.items() if thread.is_alive()}
        self._tasks = {task_id: process for task_id, process in self._tasks.items() if process.poll() is None}
        with open_history(self._settings.store) as history:
            for run_id in history.facts.unended_runs():
                begun = bool(history.facts.of(run_id)) or history.runs.get(run_id).made_at > now - RECENT
                if begun and run_id not in self._runs:
                    thread = threading.Thread(target=self._attend, args=(run_id,), name=f"run {run_id}", daemon=True)
                    self._runs[run_id] = thread
                    thread.start()
            for task_id in history.task_events.unended_tasks():
                lease = history.leases.current(task_lease_name(task_id))
                if lease is not None and not lease.has_run_out(now):
                    continue
                if task_id not in self._tasks and len(self._tasks) < TASKS_AT_ONCE:
                    self._tasks[task_id] = _start_task(task_id, self._settings)

    def _attend(self, run_id: str) -> None:
        try:
            attend(run_id, settings=self._settings, on_status=self._check)
        except _StoppingError:
            return
        except TrainfareError as error:
            _log.warning("run %s: %s", run_id, error.message)

    def _check(self, _status: RunStatus) -> None:
        if self._stopping.is_set():
            raise _StoppingError


def _start_task(task_id: str, settings: Settings) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        (sys.executable, "-m", "trainfare.app.serving.take_profile", task_id),
        env=os.environ | settings_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def settings_environment(settings: Settings) -> Mapping[str, str]:
    """The settings as environment variables, for a process that reads them from there."""
    values = {name: getattr(settings, name) for name in NAMES}
    return {f"TRAINFARE_{name.upper()}": str(value) for name, value in values.items() if value is not None}
