"""The events of tasks in a SQL database."""

from dataclasses import replace

from sqlalchemy import insert, select

from trainfare.errors import NotFoundError
from trainfare.model.lease import Lease
from trainfare.model.task import LAST_KINDS, TaskEvent
from trainfare.store import rows, schema
from trainfare.store.database import AnyRow, Database
from trainfare.store.kinds import part_name
from trainfare.store.sql_runs import require_current
from trainfare.store.statements import read_noun


class SqlTaskEvents:
    """Events, by task."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, task_id: str) -> tuple[TaskEvent, ...]:
        table = schema.task_events
        with self._database.listing() as connection:
            found = connection.execute(select(table).where(table.c.task_id == task_id).order_by(table.c.number)).all()
        return tuple(self._noun(row) for row in found)

    def append(self, event: TaskEvent, *, lease: Lease | None) -> TaskEvent:
        table, tasks = schema.task_events, schema.tasks
        with self._database.writing() as connection:
            # One process at a time appends events of a task.
            locked = select(tasks.c.id).where(tasks.c.id == event.task_id).with_for_update(key_share=True)
            if connection.execute(locked).one_or_none() is None:
                raise NotFoundError("task", event.task_id, ())
            if lease is not None:
                require_current(connection, lease, read=True)
            of_task = select(table).where(table.c.task_id == event.task_id)
            last = connection.execute(of_task.order_by(table.c.number.desc()).limit(1)).one_or_none()
            if last is not None and last.kind in LAST_KINDS:
                return self._noun(last)
            stored = replace(event, number=0 if last is None else last.number + 1)
            connection.execute(insert(table), rows.task_event_row(stored))
        return stored

    def unended_tasks(self) -> tuple[str, ...]:
        events, tasks = schema.task_events, schema.tasks
        ended = select(events.c.task_id).where(events.c.task_id == tasks.c.id, events.c.kind.in_(LAST_KINDS)).exists()
        query = select(tasks.c.id).where(~ended).order_by(tasks.c.made_at, tasks.c.id)
        with self._database.listing() as connection:
            return tuple(connection.execute(query).scalars())

    def _noun(self, row: AnyRow) -> TaskEvent:
        return read_noun(self._database, TaskEvent, row, part_name(row.task_id, row.number))
