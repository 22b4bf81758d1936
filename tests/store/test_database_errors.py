"""Failures of disks, permissions and servers: the message says what happened, to which store, and what to do, and
nothing is lost."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, event

from tests.makers import make_profile
from trainfare.errors import StoreError
from trainfare.store.open import open_history
from trainfare.store.sql import SqlHistory

NOBODY = 65534


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Give up root inside the block: root may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach (those of pytest belong to root), with a store that holds a profile."""
    folder = Path(tempfile.mkdtemp(prefix="trainfare-test-"))
    with open_history(str(folder / "history.db")) as history:
        history.profiles.add(make_profile())
    (folder / "history.db").chmod(0o666)
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a REAL full disk is not tested: only root may mount one; the page limit is tested instead")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def add_until_it_fails(history: SqlHistory) -> tuple[list[str], str]:
    """The ids that were stored, and the message of the failure."""
    added: list[str] = []
    for number in range(10_000):
        try:
            history.profiles.add(make_profile(id=f"p{number}", loss=(0.1234567,) * 2000))
        except StoreError as error:
            return added, str(error)
        added.append(f"p{number}")
    raise AssertionError("it never failed")


def open_sqlite(path: Path, *, wait_seconds: float = 5.0) -> SqlHistory:
    history = open_history(str(path), wait_seconds=wait_seconds)
    assert isinstance(history, SqlHistory)
    return history


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "history.db"
    with open_sqlite(path) as history:
        added, message = add_until_it_fails(history)
        assert message == f"the disk that holds {path} is full. Nothing was lost. Free some space and try again."
        assert added
        assert {profile.id for profile in history.profiles.all()} == set(added)
    with open_sqlite(path) as history:
        assert {profile.id for profile in history.profiles.all()} == set(added)


def test_a_full_database_loses_nothing_and_continues_when_there_is_space(tmp_path: Path) -> None:
    history = open_sqlite(tmp_path / "history.db")

    @event.listens_for(history._database.engine, "begin")
    def limit(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with history:
        pages = 100
        added, message = add_until_it_fails(history)
        assert "is full. Nothing was lost. Free some space and try again." in message
        pages = 10_000
        history.profiles.add(make_profile(id="later"))
        assert {profile.id for profile in history.profiles.all()} == {*added, "later"}


def test_a_read_only_folder_is_named(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    with as_an_ordinary_user(), pytest.raises(StoreError) as caught:
        open_history(str(public_folder / "history.db"))
    assert f"you have no permission to write to the folder {public_folder}" in str(caught.value)
    assert "Nothing was lost. Change that, or use another store." in str(caught.value)


def test_a_read_only_file_can_be_read_but_not_written(public_folder: Path) -> None:
    path = public_folder / "history.db"
    path.chmod(0o444)
    with as_an_ordinary_user(), open_sqlite(path) as history:
        assert history.profiles.all() == (make_profile(),)
        with pytest.raises(StoreError, match="you have no permission to write to the file"):
            history.profiles.add(make_profile(id="p8"))


def test_an_unreadable_file_is_named(public_folder: Path) -> None:
    path = public_folder / "history.db"
    path.chmod(0)
    with as_an_ordinary_user(), pytest.raises(StoreError, match="you have no permission to write to the file"):
        open_history(str(path))


def test_a_store_that_cannot_be_created_is_named(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    path = public_folder / "other.db"
    with as_an_ordinary_user(), pytest.raises(StoreError, match=f"{path} cannot be created: Permission denied"):
        open_history(str(path))


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file is not a folder"):
        open_history(str(tmp_path / "file" / "history.db"))


def test_a_store_locked_by_another_process_is_reported_after_a_wait(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_sqlite(path, wait_seconds=0.2) as history:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process is writing to .* Try again when it is done"):
            history.profiles.add(make_profile())
        assert history.profiles.all() == ()
        other.execute("ROLLBACK")
        other.close()
        history.profiles.add(make_profile())
        assert history.profiles.all() == (make_profile(),)


def test_an_unreachable_server_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="Connection refused") as caught:
        open_history("postgresql://ada:hunter2@127.0.0.1:1/trainfare")
    assert "postgresql://ada@127.0.0.1:1/trainfare" in str(caught.value)
    assert "hunter2" not in _all_messages(caught.value)


def test_a_wrong_password_is_reported_and_not_printed(postgres_server: str) -> None:
    parts = urlsplit(postgres_server)
    wrong = parts._replace(netloc=f"{parts.username}:hunter2@{parts.hostname}:{parts.port}").geturl()
    asked = parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}", query="password=hunter2")
    for url in (wrong, asked.geturl()):
        with pytest.raises(StoreError, match="password authentication failed") as caught:
            open_history(url)
        assert "hunter2" not in _all_messages(caught.value)


def test_a_missing_database_is_named(postgres_server: str) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        open_history(urlsplit(postgres_server)._replace(path="/nowhere").geturl())


def test_a_read_only_postgresql_can_be_read_but_not_written(postgres: str) -> None:
    with open_history(postgres) as history:
        history.profiles.add(make_profile())
    with open_history(f"{postgres}%20-cdefault_transaction_read_only%3Don") as history:
        assert history.profiles.all() == (make_profile(),)
        with pytest.raises(StoreError, match="has no permission to write"):
            history.profiles.add(make_profile(id="p8"))


def _all_messages(error: BaseException | None) -> str:
    """The message and that of every cause, which a traceback would print."""
    if error is None:
        return ""
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{error}\n{_all_messages(shown)}"
