"""Opens a history by what `--store` says: a file, the URL of a database, or `memory:`."""

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainfare.errors import StoreError, UsageError
from trainfare.store.history import History

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

    from trainfare.store.faults import Place

WAIT_SECONDS = 30.0
"""How long to wait for another process that writes; a transaction of ours takes milliseconds."""

_SMALLEST_FILE = 512
"""Bytes in the smallest page of SQLite. It takes a shorter file for an empty one, and would write over it."""


def open_history(location: str, *, wait_seconds: float = WAIT_SECONDS) -> History:
    """The history at a path or a URL, made where there is none and brought up to date where it is old."""
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
        case _:
            raise UsageError(
                f"a store cannot be at {scheme}://…. Name a file, or a PostgreSQL database as "
                "postgresql://user@host/database."
            )


def _open_sqlite(name: str, wait_seconds: float) -> History:
    from trainfare.store.faults import Place

    if not name.strip():
        raise UsageError("the store has no name. Name a file with --store, such as --store history.db.")
    path = Path(name).expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Command lines can hold keys: the file is for its owner alone.
            path.touch(mode=0o600)
    except OSError as error:
        cause = f"{path.parent} is not a folder" if path.parent.is_file() else error.strerror
        raise StoreError(
            f"the history cannot be made in {path}: {cause}. Nothing was changed. "
            "Make the folder writable, or name another file with --store."
        ) from error
    if path.is_file() and 0 < path.stat().st_size < _SMALLEST_FILE:
        raise StoreError(
            f"{path} is not a history, or was cut short: it has only {path.stat().st_size} bytes. It was left as "
            "it is. Put back a copy, or name another file with --store."
        )
    return _opened(_sqlite_engine(path, wait_seconds), Place(str(path), path), wait_seconds)


def _open_postgres(location: str) -> History:
    from sqlalchemy import create_engine

    from trainfare.store.faults import Place

    try:
        import psycopg  # noqa: F401  # SQLAlchemy would import it later, and say less
    except ImportError as error:
        raise UsageError("a store in PostgreSQL needs one more package: pip install 'trainfare[postgres]'") from error
    url = _postgres_url(location)
    engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    port = f":{url.port}" if url.port else ""
    user = f"{url.username}@" if url.username else ""
    name = f"postgresql://{user}{url.host or ''}{port}/{url.database or ''}"
    passwords = (url.password, *(url.query[key] for key in ("password",) if key in url.query))
    return _opened(engine, Place(name, secrets=tuple(str(p) for p in passwords if p)), WAIT_SECONDS)


def _postgres_url(location: str) -> "URL":
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(location)
    except (ArgumentError, ValueError):
        # The cause would print parts of the URL, and with them perhaps the password.
        raise UsageError(
            "the URL of the store cannot be understood. Write postgresql://user:password@host:5432/database, "
            "with special characters in the password as %40 for @ or %2F for /."
        ) from None


def _opened(engine: "Engine", place: "Place", wait_seconds: float) -> History:
    from trainfare.store.faults import told
    from trainfare.store.sql import SqlHistory
    from trainfare.store.upgrade import bring_up_to_date, is_up_to_date

    writer = engine.execution_options(trainfare_writes=True)
    try:
        with told(place):
            if not is_up_to_date(engine, place):
                if place.path is not None:
                    _use_write_ahead_log(place.path, wait_seconds)
                bring_up_to_date(writer, place)
    except BaseException:  # Ctrl-C too: no connection stays open
        engine.dispose()
        raise
    return SqlHistory(engine, writer, place)


def _sqlite_engine(path: Path, wait_seconds: float) -> "Engine":
    from sqlalchemy import URL, Connection, create_engine, event

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        # Transactions begin where we say, not where the driver guesses.
        connect_args={"timeout": wait_seconds, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # A flipped bit can make a text that is not UTF-8: its checksum tells, the driver must not fall over.
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
    """Readers and a writer then do not wait for each other. The file remembers it."""
    deadline = time.monotonic() + wait_seconds
    connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
    try:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                # Two processes that switch a new file at once do not wait for each other by themselves.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    finally:
        connection.close()
