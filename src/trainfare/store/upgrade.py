"""Upgrades the schema of a store, once, after a backup of the file."""

import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from trainfare.errors import StoreError
from trainfare.store.database_errors import StoreLocation
from trainfare.store.schema import REVISIONS, VERSION_TABLE

SCRIPTS = Path(__file__).parent / "migrations"

_LOCK_NUMBER = 0x7261_696E_6661_7265
"""Any number that no other program uses for a PostgreSQL advisory lock: "rainfare" in ASCII."""


def is_up_to_date(engine: Engine, location: StoreLocation, *, revisions: tuple[str, ...] = REVISIONS) -> bool:
    """True if the store has the newest schema: one small query. `StoreError` if this version must not touch it."""
    with engine.connect() as connection:
        return _revision(connection, location, revisions) == revisions[-1]


def upgrade_schema(
    writer: Engine, location: StoreLocation, *, revisions: tuple[str, ...] = REVISIONS, scripts: Path = SCRIPTS
) -> None:
    """Migrate in one transaction and under a lock, so that one of two processes migrates while the other waits."""
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
        revision = _revision(connection, location, revisions)
        if revision == revisions[-1]:
            return
        if revision is not None and location.path is not None:
            _back_up(location.path, before=revisions[-1])
        _migrate(connection, scripts, revisions[-1])


def _revision(connection: Connection, location: StoreLocation, revisions: tuple[str, ...]) -> str | None:
    """The schema revision of the store; None if it has no tables yet."""
    inspector = inspect(connection)
    if not inspector.has_table(VERSION_TABLE):
        # A PostgreSQL database may be shared between programs; a file belongs to one.
        if connection.dialect.name == "sqlite" and inspector.get_table_names():
            raise StoreError(
                f"{location.name} is a database of another program, not a history. It was left unchanged. "
                "Use another store."
            )
        return None
    revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 # the name of the table is a constant of ours
    if revision is not None and revision not in revisions:
        raise StoreError(
            f"the history in {location.name} was written by a newer trainfare (schema {revision}; this version knows "
            f"up to {revisions[-1]}). It was left unchanged. Update trainfare, or use another store."
        )
    return None if revision is None else str(revision)


def _back_up(path: Path, *, before: str) -> None:
    """Copy the store to `history.db.before-0002`; the copy is on disk before anything changes."""
    target = path.with_name(f"{path.name}.before-{before}")
    unfinished = path.with_name(f"{target.name}.part")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_WRONLY, 0o600))
    source, copy = sqlite3.connect(path), sqlite3.connect(unfinished)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    unfinished.rename(target)


def _migrate(connection: Connection, scripts: Path, revision: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
