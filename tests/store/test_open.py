"""The history that each location opens, and what opening it does not load."""

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers import make_profile
from trainfare.errors import StoreError, UsageError
from trainfare.settings import Settings
from trainfare.store.memory import MemoryHistory
from trainfare.store.open import open_existing_history, open_history


def test_a_path_is_a_file_that_is_created(tmp_path: Path) -> None:
    path = tmp_path / "100% of history?.db"
    with open_history(str(path)) as history:
        history.profiles.add(make_profile())
    with open_history(str(path)) as history:
        assert history.profiles.all() == (make_profile(),)
    assert path.is_file()


def test_a_mistyped_folder_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with pytest.raises(UsageError, match="there is no folder") as caught:
        open_history(str(tmp_path / "projcet" / "runs" / "history.db"))
    assert caught.value.field == "store"
    assert str(tmp_path / "project" / "runs" / "history.db") in str(caught.value)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "project"]


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_question_to_a_mistyped_file_is_an_error_that_names_the_nearest(tmp_path: Path, form: str) -> None:
    open_history(str(tmp_path / "history.db")).close()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="there is no store") as caught:
        open_existing_history(form.format(tmp_path / "histroy.db"))
    assert caught.value.field == "store"
    assert f"Did you mean {tmp_path / 'history.db'}?" in str(caught.value)
    (remedy,) = caught.value.remedies
    assert (remedy.command, remedy.arguments) == ("profile", {"store": str(tmp_path / "histroy.db")})
    assert sorted(tmp_path.iterdir()) == before


def test_a_question_before_the_first_profile_finds_an_empty_history_and_creates_nothing(home: Path) -> None:
    with open_existing_history(Settings().store) as history:
        assert history.profiles.all() == ()
    assert list(home.iterdir()) == []


def test_a_question_to_a_missing_folder_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        open_existing_history(str(tmp_path / "missing" / "history.db"))


def test_a_question_to_an_existing_history_reads_it(tmp_path: Path) -> None:
    location = str(tmp_path / "history.db")
    with open_history(location) as history:
        history.profiles.add(make_profile())
    with open_existing_history(location) as history:
        assert history.profiles.all() == (make_profile(),)


def test_the_folder_of_the_default_store_is_created(home: Path) -> None:
    location = Settings().store
    assert not Path(location).parent.exists()
    open_history(location).close()
    assert Path(location).is_file()


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder") as caught:
        open_history(str(tmp_path))
    assert str(tmp_path / "history.db") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100, 5000])
def test_a_text_file_is_not_a_store_and_stays_as_it_is(tmp_path: Path, size: int) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x" * size)
    with pytest.raises(StoreError, match="is not a history"):
        open_history(str(path))
    assert path.read_text() == "x" * size


def test_the_database_of_another_program_is_not_a_store_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (id INTEGER)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        open_history(str(path))
    assert path.read_bytes() == before


def test_only_the_owner_can_read_a_history(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.profiles.add(make_profile())
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_a_path_may_begin_with_a_tilde(home: Path) -> None:
    open_history("~/mine.db").close()
    assert (home / "mine.db").is_file()


@pytest.mark.parametrize("form", ["sqlite:///{}", "{}"])
def test_a_sqlite_url_is_the_file_that_it_names(tmp_path: Path, form: str) -> None:
    path = tmp_path / "history.db"
    open_history(form.format(path)).close()
    assert path.is_file()


def test_a_sqlite_url_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_history("sqlite:///history.db").close()
    assert (tmp_path / "history.db").is_file()


def test_memory_opens_a_history_in_memory() -> None:
    assert isinstance(open_history("memory:"), MemoryHistory)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("mysql://someone:hunter2@host/db", "mysql:// is not a kind of store"),
        ("", "path is empty"),
        ("sqlite://", "path is empty"),
        ("postgresql://someone:hunter2@host:port/db", "cannot be parsed"),
    ],
)
def test_an_invalid_location_is_refused_without_its_password(location: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_history(location)
    assert caught.value.field == "store"
    assert "hunter2" not in str(caught.value)


def test_postgresql_without_its_driver_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"pip install 'trainfare\[postgres\]'"):
        open_history("postgresql://host/db")


def test_opening_a_history_that_is_up_to_date_does_not_load_alembic(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    open_history(str(path)).close()
    code = (
        "import sys; from trainfare.store.open import open_existing_history, open_history; "
        f"open_history({str(path)!r}).close(); "
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_naming_a_history_does_not_load_sqlalchemy() -> None:
    code = "import sys, trainfare.store.open, trainfare.app.profiling.profiles; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
