"""Brings the schema of a store up to date, once, with a copy kept of what was there before."""

import os
import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from trainfare.errors import StoreError
from trainfare.store.faults import Place
from trainfare.store.schema import REVISIONS, VERSION_TABLE

SCRIPTS = Path(__file__).parent / "migrations"

_LOCK_NUMBER = 0x7261_696E_6661_7265
"""Any number that no other program uses for a PostgreSQL advisory lock: "rainfare" in ASCII."""


def is_up_to_date(engine: Engine, place: Place, *, revisions: tuple[str, ...] = REVISIONS) -> bool:
    """One small query. `StoreError` where the store is not one that this version may touch."""
    with engine.connect() as connection:
        return _revision(connection, place, revisions) == revisions[-1]


def bring_up_to_date(
    writer: Engine, place: Place, *, revisions: tuple[str, ...] = REVISIONS, scripts: Path = SCRIPTS
) -> None:
    """Migrates in one transaction and under a lock, so that of two processes one does it and one waits."""
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = '60s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
        found = _revision(connection, place, revisions)
        if found == revisions[-1]:
            return
        if found is not None and place.path is not None:
            _back_up(place.path, before=revisions[-1])
        _migrate(connection, scripts, revisions[-1])


def _revision(connection: Connection, place: Place, revisions: tuple[str, ...]) -> str | None:
    """The revision of the store; None where there is nothing yet."""
    inspector = inspect(connection)
    if not inspector.has_table(VERSION_TABLE):
        # A PostgreSQL database may be shared; a file is one program's.
        if connection.dialect.name == "sqlite" and inspector.get_table_names():
            raise StoreError(
                f"{place.name} is a database of another program, not a history. It was left as it is. "
                "Name another file with --store."
            )
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608  # a constant
    if found is not None and found not in revisions:
        raise StoreError(
            f"the history in {place.name} was written by a newer trainfare (layout {found}, this one knows up to "
            f"{revisions[-1]}). It was left as it is. Update trainfare, or name another store with --store."
        )
    return None if found is None else str(found)


def _back_up(path: Path, *, before: str) -> None:
    """Copies the store as it is to `history.db.before-0002`, on disk before anything changes."""
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
