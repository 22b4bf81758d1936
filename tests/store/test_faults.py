"""When the world fails: the message says what happened, to which store, what to do; nothing is lost."""

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
from sqlalchemy import event

from tests.makers import make_profile
from trainfare.errors import StoreError
from trainfare.store.open import open_history
from trainfare.store.sql import SqlHistory

NOBODY = 65534


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may write everywhere, so root is not root for a while."""
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
    """A folder that an ordinary user reaches (pytest's are root's alone), with a store that holds a profile."""
    folder = Path(tempfile.mkdtemp(prefix="trainfare-test-"))
    with open_history(str(folder / "history.db")) as history:
        history.add_profile(make_profile())
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
    """The ids that were acknowledged, and what the failure said."""
    added: list[str] = []
    for number in range(10_000):
        try:
            history.add_profile(make_profile(id=f"p{number}", loss=(0.1234567,) * 2000))
        except StoreError as error:
            return added, str(error)
        added.append(f"p{number}")
    raise AssertionError("it never failed")


def opened(path: Path, *, wait_seconds: float = 5.0) -> SqlHistory:
    history = open_history(str(path), wait_seconds=wait_seconds)
    assert isinstance(history, SqlHistory)
    return history


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "history.db"
    with opened(path) as history:
        added, said = add_until_it_fails(history)
        assert said == f"the disk that holds {path} is full. Nothing was lost. Make room and try again."
        assert added
        assert {profile.id for profile in history.profiles()} == set(added)
    with opened(path) as history:
        assert {profile.id for profile in history.profiles()} == set(added)


def test_a_full_database_loses_nothing_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    history = opened(tmp_path / "history.db")

    @event.listens_for(history._engine, "begin")
    def limit(connection: object) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]  # a Connection

    with history:
        pages = 100
        added, said = add_until_it_fails(history)
        assert "is full. Nothing was lost. Make room and try again." in said
        pages = 10_000
        history.add_profile(make_profile(id="later"))
        assert {profile.id for profile in history.profiles()} == {*added, "later"}


def test_a_read_only_folder_is_named(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    with as_an_ordinary_user(), pytest.raises(StoreError) as caught:
        open_history(str(public_folder / "history.db"))
    assert f"you may not write to the folder {public_folder}" in str(caught.value)
    assert "Nothing was lost. Change that, or name another file with --store." in str(caught.value)


def test_a_read_only_file_can_be_read_but_not_written(public_folder: Path) -> None:
    path = public_folder / "history.db"
    path.chmod(0o444)
    with as_an_ordinary_user(), opened(path) as history:
        assert history.profiles() == (make_profile(),)
        with pytest.raises(StoreError, match="you may not write to the file"):
            history.add_profile(make_profile(id="p8"))


def test_a_file_that_may_not_be_read_is_named(public_folder: Path) -> None:
    path = public_folder / "history.db"
    path.chmod(0)
    with as_an_ordinary_user(), pytest.raises(StoreError, match="you may not write to the file"):
        open_history(str(path))


def test_a_store_that_cannot_be_made_is_named(public_folder: Path) -> None:
    public_folder.chmod(0o555)
    path = public_folder / "deeper" / "history.db"
    with as_an_ordinary_user(), pytest.raises(StoreError, match=f"cannot be made in {path}: Permission denied"):
        open_history(str(path))


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="it is a folder"):
        open_history(str(tmp_path))


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file is not a folder"):
        open_history(str(tmp_path / "file" / "history.db"))


def test_a_store_that_another_process_holds_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with opened(path, wait_seconds=0.2) as history:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"another process is writing to .* Try again when it is done"):
            history.add_profile(make_profile())
        assert history.profiles() == ()
        other.execute("ROLLBACK")
        other.close()
        history.add_profile(make_profile())
        assert history.profiles() == (make_profile(),)


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StoreError, match="Connection refused") as caught:
        open_history("postgresql://ada:hunter2@127.0.0.1:1/trainfare")
    assert "postgresql://ada@127.0.0.1:1/trainfare" in str(caught.value)
    assert "hunter2" not in _everything_said(caught.value)


def test_a_wrong_password_is_said_and_not_printed(postgres_server: str) -> None:
    parts = urlsplit(postgres_server)
    wrong = parts._replace(netloc=f"{parts.username}:hunter2@{parts.hostname}:{parts.port}").geturl()
    asked = parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}", query="password=hunter2")
    for url in (wrong, asked.geturl()):
        with pytest.raises(StoreError, match="password authentication failed") as caught:
            open_history(url)
        assert "hunter2" not in _everything_said(caught.value)


def test_a_database_that_is_not_there_is_named(postgres_server: str) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        open_history(urlsplit(postgres_server)._replace(path="/nowhere").geturl())


def test_a_postgresql_that_may_only_be_read_says_so(postgres: str) -> None:
    with open_history(postgres) as history:
        history.add_profile(make_profile())
    with open_history(f"{postgres}%20-cdefault_transaction_read_only%3Don") as history:
        assert history.profiles() == (make_profile(),)
        with pytest.raises(StoreError, match="may not be written by this user"):
            history.add_profile(make_profile(id="p8"))


def _everything_said(error: BaseException | None) -> str:
    """The message and that of every cause, which a traceback would print."""
    if error is None:
        return ""
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{error}\n{_everything_said(shown)}"
