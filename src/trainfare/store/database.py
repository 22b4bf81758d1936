"""Transactions on one database, and the record of what was found damaged in it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Row, text

from trainfare.errors import StoreError
from trainfare.store.database_errors import StoreLocation, damaged_file_message, translate_errors

AnyRow = Row[Any]
T = TypeVar("T")


class DamagedRowError(StoreError):
    """One row cannot be read; the others can."""


class Database:
    """One database. `engine` begins transactions that read, `writer` those that write; they share connections."""

    def __init__(self, engine: Engine, writer: Engine, location: StoreLocation) -> None:
        self.engine, self._writer, self._location = engine, writer, location
        self._damaged: dict[str, None] = {}
        self._file_damage: str | None = None
        self._file_checked = False

    @property
    def damaged(self) -> tuple[str, ...]:
        """The sentences about everything that lists left out, without repetition."""
        return tuple(self._damaged)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads."""
        with translate_errors(self._location), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def listing(self) -> Iterator[Connection]:
        """A transaction that reads a list; a damaged file is reported, since rows may be missing from the list."""
        with self.reading() as connection:
            if (damage := self.file_damage(connection)) is not None:
                self._damaged[damage] = None
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; an error inside the block undoes it."""
        with translate_errors(self._location), self._writer.begin() as connection:
            yield connection

    def file_damage(self, connection: Connection) -> str | None:
        """The message about a damaged SQLite file, or None.

        Rows have checksums, but only SQLite's own check can tell that a row is missing. It reads 1 MB in a
        millisecond, and runs once, when something is listed or not found.
        """
        if connection.dialect.name == "sqlite" and not self._file_checked:
            answer = connection.execute(text("PRAGMA integrity_check(1)")).scalar()
            detail = " ".join(str(answer).split())
            self._file_damage = None if answer == "ok" else damaged_file_message(detail, self._location)
            self._file_checked = True
        return self._file_damage

    def readable(self, read: Callable[[AnyRow], T], rows: Iterable[AnyRow]) -> tuple[T, ...]:
        """The nouns of all rows but the damaged ones, which are reported in `damaged`."""
        nouns = []
        for row in rows:
            try:
                nouns.append(read(row))
            except DamagedRowError as error:
                self.report(error)
        return tuple(nouns)

    def report(self, error: DamagedRowError) -> None:
        """Name a damaged row in `damaged`."""
        self._damaged[str(error)] = None

    def damaged_row(self, kind: str, name: str, problem: str, *, remove_command: str | None = None) -> DamagedRowError:
        """The error about one damaged row; `remove_command` takes such a row off its list."""
        removal = f" `{remove_command} {name}` takes it off the list." if remove_command else ""
        return DamagedRowError(
            f"{kind} {name} in {self._location.name} is damaged: {problem}. It was left unchanged, and everything else "
            f"can be read. Restore a backup of the store, or continue without it.{removal}"
        )

    def close(self) -> None:
        self.engine.dispose()
