"""A history in a SQL database: the same tables over SQLite and PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic

from sqlalchemy import Connection, Engine, Select, func, insert, select, tuple_

from trainfare.errors import NotFoundError, StoreError
from trainfare.model.access import Token
from trainfare.model.estimate import Estimate
from trainfare.store import rows, schema
from trainfare.store.database import AnyRow, Database
from trainfare.store.database_errors import StoreLocation
from trainfare.store.history import AlreadyStoredError, History
from trainfare.store.kinds import N, part_name
from trainfare.store.rows import ChangeLog, PartTable, RowFormat
from trainfare.store.sql_runs import SqlFacts, SqlLeases, SqlObservations
from trainfare.store.sql_tasks import SqlTaskEvents
from trainfare.store.statements import insert_rows, read_noun, verified_document

Parts = Mapping[str, Sequence[AnyRow]]
"""The rows that are parts of nouns, by the ids of the nouns."""


class SqlTable(Generic[N]):
    """The nouns of one kind, from which none can be removed."""

    def __init__(self, database: Database, row_format: RowFormat[N]) -> None:
        self._database, self._format = database, row_format
        self._kind, self._table = row_format.kind, row_format.table

    def add(self, noun: N) -> None:
        with self._database.writing() as connection:
            self._insert(connection, noun)

    def get(self, name: str) -> N:
        with self._database.reading() as connection:
            row = self._present_row(connection, name)
            parts = self._parts(connection, row.id)
        return self._noun(row, parts)

    def all(self) -> tuple[N, ...]:
        columns = (self._format.moment, self._table.c.id)
        order = [column.desc() if self._kind.newest_first else column.asc() for column in columns]
        with self._database.listing() as connection:
            found = connection.execute(self._present(select(self._table)).order_by(*order)).all()
            parts = self._parts(connection)
        return self._database.readable(lambda row: self._noun(row, parts), found)

    def page(self, *, limit: int, after: str | None = None) -> tuple[N, ...]:
        moment, name, newest_first = self._format.moment, self._table.c.id, self._kind.newest_first
        order = [column.desc() if newest_first else column.asc() for column in (moment, name)]
        # The ids alone first: the order of all rows is then found without reading their documents.
        ids = self._present(select(name)).order_by(*order).limit(limit)
        with self._database.reading() as connection:
            if after is not None:
                last = connection.execute(select(moment.label("moment")).where(name == after)).one_or_none()
                if last is None:
                    return ()
                place, bound = tuple_(moment, name), (last.moment, after)
                ids = ids.where(place < bound if newest_first else place > bound)
            chosen = list(connection.execute(ids).scalars())
            found = {row.id: row for row in connection.execute(select(self._table).where(name.in_(chosen)))}
            parts = {each: rows for one in chosen for each, rows in self._parts(connection, one).items()}
        return self._database.readable(lambda row: self._noun(row, parts), [found[each] for each in chosen])

    def _insert(self, connection: Connection, noun: N) -> None:
        references = [str(reference) for reference in self._kind.references(noun)]
        for new in self._format.new_rows(noun):
            statement = insert(new.table)
            insert_rows(connection, statement, new.rows, kind=self._kind.name, name=noun.id, references=references)

    def _present(self, query: Select[Any]) -> Select[Any]:
        """The query without removed nouns."""
        return query

    def _present_row(self, connection: Connection, name: str) -> AnyRow:
        row = connection.execute(self._present(select(self._table)).where(self._table.c.id == name)).one_or_none()
        if row is not None:
            return row
        if (damage := self._database.file_damage(connection)) is not None:
            raise StoreError(damage)  # the noun may have been in the damaged part
        known = connection.execute(self._present(select(self._table.c.id))).scalars()
        raise NotFoundError(self._kind.name, name, known, listed_by=self._kind.list_command)

    def _parts(self, connection: Connection, name: str | None = None) -> Parts:
        """The parts of one noun, or of every noun."""
        if self._format.parts is None:
            return {}
        return _select_parts(connection, self._format.parts, name)

    def _noun(self, row: AnyRow, parts: Parts) -> N:
        kind, command = self._kind.name, self._kind.remove_command
        text = verified_document(self._database, row, kind, row.id, remove_command=command)
        part_kind = self._format.parts.kind if self._format.parts else ""
        part_texts = [
            verified_document(self._database, part, part_kind, part_name(row.id, part.part_number))
            for part in parts.get(row.id, ())
        ]
        try:
            return self._format.noun(text, part_texts)
        except ValueError as error:
            raise self._database.damaged_row(kind, row.id, str(error), remove_command=command) from error


class RemovableSqlTable(SqlTable[N]):
    """The nouns of one kind, with a log of removals."""

    def __init__(self, database: Database, row_format: RowFormat[N], changes: ChangeLog) -> None:
        super().__init__(database, row_format)
        self._changes = changes

    def add(self, noun: N) -> None:
        with self._database.writing() as connection:
            if not self._kind.restorable or (row := self._removed_row(connection, noun.id)) is None:
                self._insert(connection, noun)
            elif self._noun(row, self._parts(connection, noun.id)) == noun:
                self._record(connection, noun.id, "restored")
            else:
                raise AlreadyStoredError(self._kind.name, noun.id)

    def remove(self, name: str) -> None:
        with self._database.writing() as connection:
            row = self._present_row(connection, name)
            self._record(connection, row.id, self._changes.removal)

    def _present(self, query: Select[Any]) -> Select[Any]:
        return query.where(self._table.c.id.not_in(self._removed_ids()))

    def _removed_row(self, connection: Connection, name: str) -> AnyRow | None:
        query = select(self._table).where(self._table.c.id == name, self._table.c.id.in_(self._removed_ids()))
        return connection.execute(query).one_or_none()

    def _removed_ids(self) -> Select[Any]:
        """The nouns whose last change is a removal."""
        table, owner_id = self._changes.table, self._changes.owner_id
        last_changes = select(func.max(table.c.number)).group_by(owner_id)
        return select(owner_id).where(table.c.number.in_(last_changes), table.c.change == self._changes.removal)

    def _record(self, connection: Connection, name: str, change: str) -> None:
        connection.execute(insert(self._changes.table).values({self._changes.owner_id: name, "change": change}))


class SqlTokens(RemovableSqlTable[Token]):
    """Tokens, which are found by the digests of their secrets."""

    def find(self, secret_sha256: str) -> Token | None:
        query = self._present(select(self._table)).where(self._table.c.secret_sha256 == secret_sha256)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else self._noun(row, {})

    def _record(self, connection: Connection, name: str, change: str) -> None:
        row: rows.Values = {self._changes.owner_id.name: name, "change": change}
        insert_rows(connection, insert(self._changes.table), [row], kind="token", name=name, references=())


class EstimateIndex:
    """The estimates of stored plans, by profile."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, owner_id: str) -> tuple[Estimate, ...]:
        table, plans = schema.estimates, schema.plans
        with self._database.listing() as connection:
            found = connection.execute(
                select(table)
                .join(plans)
                .where(table.c.profile_id == owner_id)
                .order_by(plans.c.made_at.desc(), plans.c.id.desc(), table.c.rank)
            ).all()
        return self._database.readable(self._noun, found)

    def _noun(self, row: AnyRow) -> Estimate:
        return read_noun(self._database, Estimate, row, part_name(row.plan_id, row.rank))


class SqlHistory(History):
    """Every table of a history in one database. `engine` and `writer` are those of `Database`."""

    def __init__(self, engine: Engine, writer: Engine, location: StoreLocation) -> None:
        self._database = database = Database(engine, writer, location)
        self.profiles = RemovableSqlTable(database, rows.PROFILES, rows.PROFILE_CHANGES)
        self.plans = SqlTable(database, rows.PLANS)
        self.runs = SqlTable(database, rows.RUNS)
        self.submissions = RemovableSqlTable(database, rows.SUBMISSIONS, rows.SUBMISSION_CHANGES)
        self.estimates = EstimateIndex(database)
        self.facts = SqlFacts(database)
        self.observations = SqlObservations(database)
        self.leases = SqlLeases(database)
        self.tokens = SqlTokens(database, rows.TOKENS, rows.TOKEN_CHANGES)
        self.tasks = SqlTable(database, rows.TASKS)
        self.task_events = SqlTaskEvents(database)

    @property
    def damaged(self) -> tuple[str, ...]:
        return self._database.damaged

    def close(self) -> None:
        self._database.close()


def _select_parts(connection: Connection, parts: PartTable, owner_id: str | None) -> Parts:
    owner, number = parts.owner_id.label("owner"), parts.order.label("part_number")
    query = select(parts.table, owner, number).order_by(parts.order)
    if owner_id is not None:
        query = query.where(parts.owner_id == owner_id)
    found: dict[str, list[AnyRow]] = {}
    for row in connection.execute(query):
        found.setdefault(row.owner, []).append(row)
    return found
