"""What databases say when they fail, in words that a user can act on."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from trainfare.errors import StoreError

_SAFE = "Nothing was lost."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history is, as it may be printed."""

    name: str
    path: Path | None = None
    secrets: tuple[str, ...] = ()

    def redacted(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


@contextmanager
def told(place: Place) -> Iterator[None]:
    """Turns what a database raises into `StoreError`."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # The chain is cut: the statement and the parameters in it may hold what must not be printed.
        raise StoreError(_explained(cause or error, place)) from None
    except UnicodeDecodeError:
        # SQLite quotes the damaged schema in its message, and the driver cannot read that.
        raise StoreError(damaged_file("its schema cannot be read", place)) from None


def is_taken(error: IntegrityError) -> bool:
    """Is a name taken twice (and not: something that is leaned on missing)?"""
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return name in ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE")
    return getattr(error.orig, "sqlstate", None) == "23505"


def _explained(cause: BaseException, place: Place) -> str:
    said = place.redacted(str(cause).strip().split("\n")[0]).rstrip(".")
    if isinstance(cause, sqlite3.Error):
        return _sqlite(cause, said, place)
    return _postgres(getattr(cause, "sqlstate", None), said, place)


def _sqlite(cause: sqlite3.Error, said: str, place: Place) -> str:
    # The low byte is the kind of failure, the rest its variety: https://sqlite.org/rescode.html
    match getattr(cause, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return f"the disk that holds {place.name} is full. {_SAFE} Make room and try again."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return (
                f"another process is writing to {place.name} and has not finished in time. {_SAFE} "
                "Try again when it is done."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return (
                f"the history in {place.name} cannot be opened for writing: {_obstacle(place, said)}. {_SAFE} "
                "Change that, or name another file with --store."
            )
        case sqlite3.SQLITE_CORRUPT:
            return damaged_file(said, place)
        case sqlite3.SQLITE_NOTADB:
            return (
                f"{place.name} is not a history: it is not a SQLite database, or its beginning is damaged. "
                "It was left as it is. Put back a copy, or name another file with --store."
            )
        case _:
            return f"the history in {place.name} cannot be read or written: {said}. {_SAFE}"


def damaged_file(said: str, place: Place) -> str:
    """Not one row but the file around the rows."""
    return (
        f"the history in {place.name} is damaged ({said}). It was left as it is. Put back a copy, or save what "
        f"can be read: sqlite3 '{place.name}' .recover | sqlite3 saved.db, and then name saved.db with --store."
    )


def _obstacle(place: Place, said: str) -> str:
    path = place.path
    if path is None:
        return said
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return "you may not write to the file"
    if not os.access(path.parent, os.W_OK, effective_ids=True):
        return f"you may not write to the folder {path.parent}"
    return said


def _postgres(sqlstate: str | None, said: str, place: Place) -> str:
    # https://www.postgresql.org/docs/current/errcodes-appendix.html
    match sqlstate:
        case "53100":
            return f"the disk of the database {place.name} is full. {_SAFE} Make room and try again."
        case "55P03" | "57014":
            return f"another process holds {place.name} and has not finished in time. {_SAFE} Try again later."
        case "25006" | "42501":
            return f"the history in {place.name} may not be written by this user: {said}. {_SAFE}"
        case _:
            return (
                f"the database {place.name} cannot be used: {said}. {_SAFE} "
                "Check the address, the user and the password of the store, and that the server runs."
            )
