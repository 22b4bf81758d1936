"""Tokens and tasks in a history that ends with the process."""

from dataclasses import replace

from trainfare.errors import NotFoundError
from trainfare.model.access import Token
from trainfare.model.lease import Lease
from trainfare.model.task import LAST_KINDS, Task, TaskEvent
from trainfare.store.memory_runs import MemoryLeases
from trainfare.store.memory_table import MemoryTable


class MemoryTokens(MemoryTable[Token]):
    """Tokens, which are found by the digests of their secrets."""

    def find(self, secret_sha256: str) -> Token | None:
        return next((token for token in self.all() if token.secret_sha256 == secret_sha256), None)


class MemoryTaskEvents:
    """Events, by task."""

    def __init__(self, tasks: MemoryTable[Task], leases: MemoryLeases) -> None:
        self._tasks, self._leases = tasks, leases
        self._by_task: dict[str, tuple[TaskEvent, ...]] = {}

    def of(self, task_id: str) -> tuple[TaskEvent, ...]:
        return self._by_task.get(task_id, ())

    def append(self, event: TaskEvent, *, lease: Lease | None) -> TaskEvent:
        with self._leases.lock:
            if not self._tasks.has_stored(event.task_id):
                raise NotFoundError("task", event.task_id, ())
            if lease is not None:
                self._leases.require_current(lease)
            events = self.of(event.task_id)
            if events and events[-1].kind in LAST_KINDS:
                return events[-1]
            stored = replace(event, number=len(events))
            self._by_task[event.task_id] = (*events, stored)
            return stored

    def unended_tasks(self) -> tuple[str, ...]:
        oldest_first = reversed(self._tasks.all())
        return tuple(t.id for t in oldest_first if not (e := self.of(t.id)) or e[-1].kind not in LAST_KINDS)
