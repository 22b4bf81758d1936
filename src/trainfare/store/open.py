"""Opens a history by its location: the path of a file, the URL of a database, or `memory:`."""

import difflib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from trainfare.errors import Remedy, StoreError, UsageError
from trainfare.store.history import History

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from trainfare.store.database_errors import StoreLocation

WAIT_SECONDS = 30.0
"""The longest wait for another process that writes; one of our transactions takes milliseconds."""

DEFAULT_NAME = "history.db"
"""The file in our own data folder that is the default store."""

_SMALLEST_FILE = 512
"""Bytes in the smallest page of SQLite. SQLite takes a shorter file for an empty one, and would overwrite it."""


def open_history(location: str, *, wait_seconds: float = WAIT_SECONDS) -> History:
    """The history at a path or a URL, created if there is none and upgraded if it is old.

    The folder of a file must exist, so that a mistyped path is an error; only our own data folder is created.
    """
    if location == "memory:":
        from trainfare.store.memory import MemoryHistory

        return MemoryHistory()
    scheme, is_url, rest = location.partition("://")
    if not is_url:
        return _open_sqlite(location, wait_seconds)
    match scheme:
        case "sqlite":
            return _open_sqlite(rest.removeprefix("/"), wait_seconds)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return _open_postgres(f"postgresql+psycopg://{rest}")
        case "http" | "https":
            from trainfare.store.remote import RemoteHistory

            return RemoteHistory(location)
        case _:
            raise UsageError(
                f"{scheme}:// is not a kind of store. Use the path of a file, or the URL of a PostgreSQL database "
                "such as postgresql://user@host/database.",
                field="store",
            )


def open_existing_history(location: str) -> History:
    """The history at a path or a URL, for questions that need no new one: a path without a file is an error.

    Before the first profile there is no file at the default place either; that is an empty history.
    """
    scheme, is_url, rest = location.partition("://")
    if location != "memory:" and (not is_url or scheme == "sqlite"):
        path = _sqlite_path(rest.removeprefix("/") if is_url else location)
        if path == platformdirs.user_data_path("trainfare") / DEFAULT_NAME and not path.exists():
            return open_history("memory:")
        _require_file(path)
    return open_history(location)


def _sqlite_path(name: str) -> Path:
    if not name.strip():
        raise UsageError("the path is empty. Use the path of a file, such as history.db.", field="store")
    return Path(name).expanduser().absolute()


def _require_file(path: Path) -> None:
    """Raise UsageError if there is nothing at the path, with the file that was perhaps meant."""
    if path.exists() or not path.parent.is_dir():
        return  # opening it reports that there is no such folder
    names = (
        [entry.name for entry in path.parent.iterdir() if entry.is_file()] if os.access(path.parent, os.R_OK) else []
    )
    near = difflib.get_close_matches(path.name, names, n=1)
    guess = f" Did you mean {path.with_name(near[0])}?" if near else ""
    raise UsageError(
        f"there is no store {path}.{guess} The first profile creates it.",
        field="store",
        remedies=[
            Remedy(
                {"store": str(path)},
                command="profile",
                program="python train.py",
                python=f"trainfare.profile(['python', 'train.py'], settings=Settings(store={str(path)!r}))",
            )
        ],
    )


def _open_sqlite(name: str, wait_seconds: float) -> History:
    from trainfare.store.database_errors import StoreLocation

    path = _sqlite_path(name)
    try:
        if path.is_dir():
            raise UsageError(
                f"{path} is a folder. Give the path of a file in it, such as {path / 'history.db'}.", field="store"
            )
        _require_folder(path)
        if not path.exists():
            # Command lines can hold keys: only the owner may read the file.
            path.touch(mode=0o600)
    except OSError as error:
        cause = f"{path.parent} is not a folder" if path.parent.is_file() else error.strerror
        raise StoreError(
            f"the history {path} cannot be created: {cause}. Nothing was changed. "
            "Make the folder writable, or use another store."
        ) from error
    if path.is_file() and 0 < path.stat().st_size < _SMALLEST_FILE:
        raise StoreError(
            f"{path} is not a history, or was truncated: it has only {path.stat().st_size} bytes. It was left "
            "unchanged. Restore a backup, or use another store."
        )
    return _open_database(_sqlite_engine(path, wait_seconds), StoreLocation(str(path), path), wait_seconds)


def _require_folder(path: Path) -> None:
    """Create the folder of the default store; raise UsageError for any other that does not exist."""
    folder = path.parent
    if folder == platformdirs.user_data_path("trainfare"):
        folder.mkdir(parents=True, exist_ok=True)
        return
    existing = next(parent for parent in path.parents if parent.exists())
    if existing == folder or not existing.is_dir():
        return  # creating the file reports that it is no folder
    missing = path.relative_to(existing).parts
    names = [entry.name for entry in existing.iterdir() if entry.is_dir()] if os.access(existing, os.R_OK) else []
    near = difflib.get_close_matches(missing[0], names, n=1)
    guess = f" Did you mean {existing.joinpath(near[0], *missing[1:])}?" if near else ""
    raise UsageError(
        f"there is no folder {folder}, so {path} cannot be a store.{guess} Correct the path, or create the folder "
        "first.",
        field="store",
    )


def _open_postgres(location: str) -> History:
    from sqlalchemy import create_engine

    from trainfare.store.database_errors import StoreLocation

    try:
        import psycopg  # noqa: F401 # SQLAlchemy would import it later, with a less helpful message
    except ImportError as error:
        raise UsageError(
            "a store in PostgreSQL needs one more package: pip install 'trainfare[postgres]'", field="store"
        ) from error
    url = _postgres_url(location)
    engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    name = f"postgresql://{user}{url.host or ''}{port}/{url.database or ''}"
    passwords = (url.password, *(url.query[key] for key in ("password",) if key in url.query))
    return _open_database(engine, StoreLocation(name, secrets=tuple(str(p) for p in passwords if p)), WAIT_SECONDS)


def _postgres_url(location: str) -> "URL":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(location)
    except (ArgumentError, ValueError):
        # The cause would print parts of the URL, and perhaps the password.
        raise UsageError(
            "the URL cannot be parsed. Write postgresql://user:password@host:5432/database, "
            "with special characters in the password as %40 for @ or %2F for /.",
            field="store",
        ) from None


def _open_database(engine: "Engine", location: "StoreLocation", wait_seconds: float) -> History:
    """The history in a database whose schema is upgraded first if it is old or missing."""
    from trainfare.store.database_errors import translate_errors
    from trainfare.store.sql import SqlHistory
    from trainfare.store.upgrade import is_up_to_date, upgrade_schema

    writer = engine.execution_options(trainfare_writes=True)
    try:
        with translate_errors(location):
            if not is_up_to_date(engine, location):
                if location.path is not None:
                    _use_write_ahead_log(location.path, wait_seconds)
                upgrade_schema(writer, location)
    except BaseException:  # Ctrl-C too: no connection stays open
        engine.dispose()
        raise
    return SqlHistory(engine, writer, location)


def _sqlite_engine(path: Path, wait_seconds: float) -> "Engine":
    from sqlalchemy import URL, Connection, create_engine, event

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # Transactions begin where we say, not where the driver guesses.
        connect_args={"timeout": wait_seconds, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # A flipped bit can make a text that is not UTF-8: its checksum reveals that, and the driver must not fail.
        connection.text_factory = lambda raw: raw.decode(errors="replace")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("trainfare_writes")
        # A writer that began as a reader could find the lock taken halfway, and waiting would not help.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_write_ahead_log(path: Path, wait_seconds: float) -> None:
    """Switch the file to a write-ahead log, with which readers and a writer do not wait for each other."""
    deadline = time.monotonic() + wait_seconds
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # Two processes that switch a new file at the same moment do not wait for each other by themselves.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    finally:
        connection.close()
