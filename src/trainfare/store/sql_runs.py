"""What belongs to runs in a SQL database: facts, observations, and the leases under which facts are appended.

SQLite has one writer at a time. In PostgreSQL, a transaction locks the rows that its decision depends on.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, insert, select, update

from trainfare.errors import StoreError
from trainfare.model.lease import Lease
from trainfare.model.run import REFUSAL_KINDS, Fact, Observation, ObservationKind
from trainfare.store import rows, schema
from trainfare.store.database import AnyRow, DamagedRowError, Database
from trainfare.store.fact_rules import LastFact, next_fact, require_author
from trainfare.store.history import StaleLeaseError
from trainfare.store.kinds import part_name
from trainfare.store.rows import sortable
from trainfare.store.statements import insert_missing, insert_rows, read_noun

_LONGEST_RUN = timedelta(days=60)
"""Longer than the longest lease of a machine, twice."""
_LONG_AGO = "0001-01-01T00:00:00.000000Z"
"""The end of a lease without a holder."""


class SqlFacts:
    """Facts, by run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, run_id: str) -> tuple[Fact, ...]:
        table = schema.facts
        with self._database.listing() as connection:
            found = connection.execute(select(table).where(table.c.run_id == run_id).order_by(table.c.number)).all()
        try:
            return tuple(self._noun(row, number) for number, row in enumerate(found))
        except DamagedRowError as error:
            self._database.report(error)
            raise

    def of_each(self, run_ids: Collection[str]) -> dict[str, tuple[Fact, ...]]:
        table = schema.facts
        query = select(table).where(table.c.run_id.in_(tuple(run_ids))).order_by(table.c.run_id, table.c.number)
        with self._database.reading() as connection:
            found = connection.execute(query).all()
        of_run: dict[str, list[AnyRow]] = {run_id: [] for run_id in run_ids}
        for row in found:
            of_run[row.run_id].append(row)
        facts = {}
        for run_id, own in of_run.items():
            try:
                facts[run_id] = tuple(self._noun(row, number) for number, row in enumerate(own))
            except DamagedRowError as error:
                self._database.report(error)
        return facts

    def append(self, fact: Fact, *, lease: Lease | None) -> Fact:
        require_author(fact, lease)
        table = schema.facts
        of_run = select(table.c.number, table.c.kind).where(table.c.run_id == fact.run_id)
        with self._database.writing() as connection:
            self._lock_run(connection, fact.run_id)
            if lease is not None:
                require_current(connection, lease, read=True)
            row = connection.execute(of_run.order_by(table.c.number.desc()).limit(1)).one_or_none()
            stored = next_fact(fact, last=LastFact(row.number, row.kind) if row else None, lease=lease)
            connection.execute(insert(table), rows.fact_row(stored))
        return stored

    def unended_runs(self) -> tuple[str, ...]:
        runs = schema.runs
        return self._names(select(runs.c.id).where(~_has_ended()).order_by(runs.c.made_at, runs.c.id))

    def refusals(self, *, since: datetime) -> tuple[Fact, ...]:
        table, runs = schema.facts, schema.runs
        refused = select(table).join(runs, runs.c.id == table.c.run_id).where(table.c.kind.in_(REFUSAL_KINDS))
        # The moment of a fact is in its document; a run that was agreed to a month ago has ended.
        recent = refused.where(runs.c.made_at >= sortable(since - _LONGEST_RUN))
        with self._database.listing() as connection:
            rows_found = connection.execute(recent).all()
        found = self._database.readable(self._refusal, rows_found)
        recently = [each for each in found if each.is_refusal and each.seen_at >= since]
        return tuple(sorted(recently, key=lambda each: each.seen_at, reverse=True))

    def _refusal(self, row: AnyRow) -> Fact:
        return read_noun(self._database, Fact, row, part_name(row.run_id, row.number))

    def ended_runs(self, *, limit: int | None = None) -> tuple[str, ...]:
        runs = schema.runs
        newest_first = (runs.c.made_at.desc(), runs.c.id.desc())
        return self._names(select(runs.c.id).where(_has_ended()).order_by(*newest_first).limit(limit))

    def _names(self, query: Select[Any]) -> tuple[str, ...]:
        with self._database.listing() as connection:
            return tuple(connection.execute(query).scalars())

    def _lock_run(self, connection: Connection, run_id: str) -> None:
        """Let one process at a time append facts of this run; its observations can be added meanwhile."""
        table = schema.runs
        query = select(table.c.id).where(table.c.id == run_id).with_for_update(key_share=True)
        if connection.execute(query).one_or_none() is None:
            if (damage := self._database.file_damage(connection)) is not None:
                raise StoreError(damage)  # the run may have been in the damaged part
            raise ValueError(f"a fact refers to run {run_id}, which is not in history")

    def _noun(self, row: AnyRow, number: int) -> Fact:
        if row.number != number:
            raise self._database.damaged_row("fact", part_name(row.run_id, number), "it is missing")
        return read_noun(self._database, Fact, row, part_name(row.run_id, row.number))


def _has_ended() -> ColumnElement[bool]:
    runs, facts = schema.runs, schema.facts
    return select(facts.c.run_id).where(facts.c.run_id == runs.c.id, facts.c.kind == "run ended").exists()


class SqlObservations:
    """Observations, by run."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_all(self, observations: Iterable[Observation]) -> None:
        # In the same order everywhere: two processes that add the same ones then wait for each other, never both.
        new = sorted(observations, key=lambda each: (each.run_id, each.attempt, each.node, each.number))
        if not new:
            return
        first = part_name(new[0].run_id, new[0].attempt, new[0].node, new[0].number)
        runs = [f"run {run_id}" for run_id in dict.fromkeys(each.run_id for each in new)]
        with self._database.writing() as connection:
            statement = insert_missing(connection, schema.observations)
            new_rows = map(rows.observation_row, new)
            insert_rows(connection, statement, new_rows, kind="observation", name=first, references=runs)

    def of(
        self,
        run_id: str,
        *,
        kinds: Collection[ObservationKind] | None = None,
        attempt: int | None = None,
        node: int | None = None,
        after: int = 0,
    ) -> tuple[Observation, ...]:
        table = schema.observations
        query = select(table).where(table.c.run_id == run_id)
        if kinds is not None:
            query = query.where(table.c.kind.in_(tuple(kinds)))
        if attempt is not None:
            query = query.where(table.c.attempt == attempt)
        if node is not None:
            query = query.where(table.c.node == node)
        if after:
            query = query.where(table.c.number > after)
        with self._database.listing() as connection:
            found = connection.execute(query).all()
        # Sorted here: for the sake of the order, SQLite would read all rows of the run instead of those of some kinds.
        in_order = sorted(found, key=attrgetter("attempt", "node", "number"))
        return self._database.readable(self._noun, in_order)

    def last_number(self, run_id: str, *, attempt: int, node: int) -> int:
        table = schema.observations
        journal = (table.c.run_id == run_id, table.c.attempt == attempt, table.c.node == node)
        # PostgreSQL without statistics would read all rows for the maximum.
        query = select(table.c.number).where(*journal).order_by(table.c.number.desc()).limit(1)
        with self._database.reading() as connection:
            return connection.execute(query).scalar() or 0

    def _noun(self, row: AnyRow) -> Observation:
        return read_noun(self._database, Observation, row, part_name(row.run_id, row.attempt, row.node, row.number))


class SqlLeases:
    """Leases, one row a name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, name: str, *, holder: str, seconds: float, now: datetime) -> Lease | None:
        table = schema.leases
        with self._database.writing() as connection:
            free = {"name": name, "holder": None, "token": 0, "expires_at": _LONG_AGO}
            connection.execute(insert_missing(connection, table), free)
            row = connection.execute(select(table).where(table.c.name == name).with_for_update()).one()
            if row.holder not in (None, holder) and row.expires_at > sortable(now):
                return None
            lease = Lease(name=name, holder=holder, token=row.token + 1, expires_at=now + timedelta(seconds=seconds))
            _write(connection, lease)
        return lease

    def renew(self, lease: Lease, seconds: float, now: datetime) -> Lease:
        renewed = replace(lease, expires_at=now + timedelta(seconds=seconds))
        with self._database.writing() as connection:
            require_current(connection, lease, read=False)
            _write(connection, renewed)
        return renewed

    def release(self, lease: Lease) -> None:
        table = schema.leases
        current = (table.c.name == lease.name, table.c.token == lease.token, table.c.holder == lease.holder)
        with self._database.writing() as connection:
            connection.execute(update(table).where(*current).values(holder=None, expires_at=_LONG_AGO))

    def current(self, name: str) -> Lease | None:
        table = schema.leases
        with self._database.reading() as connection:
            row = connection.execute(select(table).where(table.c.name == name)).one_or_none()
        if row is None or row.holder is None:
            return None
        return Lease(name=name, holder=row.holder, token=row.token, expires_at=datetime.fromisoformat(row.expires_at))


def _write(connection: Connection, lease: Lease) -> None:
    table = schema.leases
    connection.execute(
        update(table)
        .where(table.c.name == lease.name)
        .values(holder=lease.holder, token=lease.token, expires_at=sortable(lease.expires_at))
    )


def require_current(connection: Connection, lease: Lease, *, read: bool) -> None:
    """`StaleLeaseError` unless the lease is the current one; it cannot be taken over before the transaction has ended.

    With `read`, other transactions may read the row under the same condition meanwhile.
    """
    table = schema.leases
    query = select(table.c.holder, table.c.token).where(table.c.name == lease.name).with_for_update(read=read)
    row = connection.execute(query).one_or_none()
    if row is None or (row.holder, row.token) != (lease.holder, lease.token):
        raise StaleLeaseError(lease, current_holder=row.holder if row else None)
