"""The history that each location opens, and what opening it does not load."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers import make_profile
from trainfare.errors import UsageError
from trainfare.store.memory import MemoryHistory
from trainfare.store.open import open_history


def test_a_path_is_a_file_and_its_folders_are_created(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there yet" / "100% of history?.db"
    with open_history(str(path)) as history:
        history.profiles.add(make_profile())
    with open_history(str(path)) as history:
        assert history.profiles.all() == (make_profile(),)
    assert path.is_file()


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
        "import sys; from trainfare.store.open import open_history; "
        f"open_history({str(path)!r}).close(); "
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_naming_a_history_does_not_load_sqlalchemy() -> None:
    code = "import sys, trainfare.store.open, trainfare.app.profiling.profiles; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
