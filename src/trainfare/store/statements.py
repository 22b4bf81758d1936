"""Statements that several tables use: rows are inserted, and read back as nouns."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from trainfare.model import document
from trainfare.store import rows
from trainfare.store.database import AnyRow, Database
from trainfare.store.database_errors import is_duplicate_key
from trainfare.store.history import AlreadyStoredError
from trainfare.store.rows import Values

D = TypeVar("D", bound=document.Noun)


def insert_rows(
    connection: Connection,
    statement: Insert,
    new_rows: Iterable[Values],
    *,
    kind: str,
    name: str,
    references: Sequence[str],
) -> None:
    """Insert the rows of a noun. `AlreadyStoredError` if its key is taken, `ValueError` if a reference is missing."""
    try:
        connection.execute(statement, list(new_rows))
    except IntegrityError as error:
        if is_duplicate_key(error):
            raise AlreadyStoredError(kind, name) from error
        missing = "which is not in history" if len(references) == 1 else "not all of which are in history"
        raise ValueError(f"{kind} {name} refers to {', '.join(references)}, {missing}") from error


def insert_missing(connection: Connection, table: Table) -> Insert:
    """An insertion that leaves a row as it is if its key is taken."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def verified_document(
    database: Database, row: AnyRow, kind: str, name: str, *, remove_command: str | None = None
) -> str:
    """The document of a row, whose checksum must match."""
    if row.sha256 != rows.checksum(kind, name, row.document):
        raise database.damaged_row(kind, name, "its checksum does not match", remove_command=remove_command)
    return str(row.document)


def read_noun(database: Database, noun_type: type[D], row: AnyRow, name: str) -> D:
    """The noun of a row that has no parts."""
    kind = document.kind_of(noun_type)
    text = verified_document(database, row, kind, name)
    try:
        return document.from_json(noun_type, text)
    except ValueError as error:
        raise database.damaged_row(kind, name, str(error)) from error
