"""Which history a location opens, and how quickly."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.makers import make_profile
from trainfare.errors import UsageError
from trainfare.store.memory import MemoryHistory
from trainfare.store.open import open_history


def test_a_path_is_a_file_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there yet" / "100% of history?.db"
    with open_history(str(path)) as history:
        history.add_profile(make_profile())
    with open_history(str(path)) as history:
        assert history.profiles() == (make_profile(),)
    assert path.is_file()


def test_a_history_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.add_profile(make_profile())
        for file in tmp_path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name


def test_a_path_may_begin_at_home(home: Path) -> None:
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


def test_memory_is_not_kept() -> None:
    assert isinstance(open_history("memory:"), MemoryHistory)


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("mysql://someone:hunter2@host/db", "a store cannot be at mysql://"),
        ("", "the store has no name"),
        ("sqlite://", "the store has no name"),
        ("postgresql://someone:hunter2@host:port/db", "cannot be understood"),
    ],
)
def test_a_location_that_is_none_is_refused(location: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        open_history(location)
    assert "hunter2" not in str(caught.value)


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
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
