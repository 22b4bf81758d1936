"""Errors of databases, translated into messages that a user can act on."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from trainfare.errors import StoreError

_NOTHING_LOST = "Nothing was lost."


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The place of a history: its printable name, its path if it is a file, and secrets never to be printed."""

    name: str
    path: Path | None = None
    secrets: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """The text with every secret replaced by an ellipsis."""
        for secret in self.secrets:
            text = text.replace(secret, "…")
        return text


@contextmanager
def translate_errors(location: StoreLocation) -> Iterator[None]:
    """Turn what a database raises inside the block into `StoreError`."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # The chain is cut: the statement and its parameters may hold what must not be printed.
        raise StoreError(_message(cause or error, location)) from None
    except UnicodeDecodeError:
        # SQLite quotes the damaged schema in its message, and the driver cannot decode that.
        raise StoreError(damaged_file_message("its schema cannot be read", location)) from None


def is_duplicate_key(error: IntegrityError) -> bool:
    """True if a key is taken; otherwise a row that is referred to is missing."""
    name = getattr(error.orig, "sqlite_errorname", None)
    if name is not None:
        return name in ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE")
    return getattr(error.orig, "sqlstate", None) == "23505"


def damaged_file_message(detail: str, location: StoreLocation) -> str:
    """The message about a file whose structure is damaged, rather than one row in it."""
    return (
        f"the history in {location.name} is damaged ({detail}). It was left unchanged. Restore a backup, or recover "
        f"what can be read (sqlite3 '{location.name}' .recover | sqlite3 recovered.db) and use recovered.db as the "
        "store."
    )


def _message(cause: BaseException, location: StoreLocation) -> str:
    detail = location.redact(str(cause).strip().split("\n")[0]).rstrip(".")
    if isinstance(cause, sqlite3.Error):
        return _sqlite_message(cause, detail, location)
    return _postgres_message(getattr(cause, "sqlstate", None), detail, location)


def _sqlite_message(cause: sqlite3.Error, detail: str, location: StoreLocation) -> str:
    # The low byte is the primary result code: https://sqlite.org/rescode.html
    match getattr(cause, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return f"the disk that holds {location.name} is full. {_NOTHING_LOST} Free some space and try again."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return (
                f"another process is writing to {location.name} and did not finish in time. {_NOTHING_LOST} "
                "Try again when it is done."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return (
                f"the history in {location.name} cannot be opened for writing: {_obstacle(location, detail)}. "
                f"{_NOTHING_LOST} Change that, or use another store."
            )
        case sqlite3.SQLITE_CORRUPT:
            return damaged_file_message(detail, location)
        case sqlite3.SQLITE_NOTADB:
            return (
                f"{location.name} is not a history: it is not a SQLite database, or its beginning is damaged. "
                "It was left unchanged. Restore a backup, or use another store."
            )
        case _:
            return f"the history in {location.name} cannot be read or written: {detail}. {_NOTHING_LOST}"


def _obstacle(location: StoreLocation, detail: str) -> str:
    """The reason why a file cannot be written, or `detail` if none is found."""
    path = location.path
    if path is None:
        return detail
    if path.is_dir():
        return "it is a folder"
    if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return "you have no permission to write to the file"
    if not os.access(path.parent, os.W_OK, effective_ids=True):
        return f"you have no permission to write to the folder {path.parent}"
    return detail


def _postgres_message(sqlstate: str | None, detail: str, location: StoreLocation) -> str:
    # https://www.postgresql.org/docs/current/errcodes-appendix.html
    match sqlstate:
        case "53100":
            return f"the disk of the database {location.name} is full. {_NOTHING_LOST} Free some space and try again."
        case "55P03" | "57014":
            return f"another process has locked {location.name} for too long. {_NOTHING_LOST} Try again later."
        case "25006" | "42501":
            return f"this user has no permission to write to {location.name}: {detail}. {_NOTHING_LOST}"
        case _:
            return (
                f"the database {location.name} cannot be used: {detail}. {_NOTHING_LOST} "
                "Check the address, the user and the password of the store, and that the server is running."
            )
