"""Stores of other versions: older ones are lifted with a copy kept, newer ones are left alone."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import CheckConstraint, create_engine, inspect

from tests.makers import make_plan, make_profile, make_submission
from trainfare.errors import StoreError
from trainfare.store import upgrade
from trainfare.store.faults import Place
from trainfare.store.open import _sqlite_engine, open_history
from trainfare.store.schema import REVISIONS, VERSION_TABLE, metadata
from trainfare.store.sql import SqlHistory

NEXT = (*REVISIONS, "next")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one profile."""
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.add_profile(make_profile())
    return path


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The migrations of a version that adds a column."""
    scripts = tmp_path / "migrations of 100%"
    shutil.copytree(upgrade.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "next.py").write_text(
        "import sqlalchemy as sa\n"
        "from alembic import op\n"
        f"revision, down_revision = 'next', '{REVISIONS[-1]}'\n"
        "def upgrade():\n"
        "    op.add_column('profiles', sa.Column('note', sa.Text))\n"
    )
    return scripts


def lift(path: Path, scripts: Path) -> None:
    engine = _sqlite_engine(path, 5)
    try:
        upgrade.bring_up_to_date(
            engine.execution_options(trainfare_writes=True),
            Place(str(path), path),
            revisions=NEXT,
            scripts=scripts,
        )
    finally:
        engine.dispose()


def columns_of_profiles(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {row[1] for row in connection.execute("PRAGMA table_info(profiles)")}
    finally:
        connection.close()


def test_the_revisions_are_those_of_the_scripts() -> None:
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory(str(upgrade.SCRIPTS)).walk_revisions()
    assert tuple(step.revision for step in steps)[::-1] == REVISIONS


@pytest.fixture(params=["sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The SQLAlchemy URL of a store that was just made."""
    if request.param == "sqlite":
        location = f"sqlite:///{tmp_path / 'new.db'}"
        url = location
    else:
        location = request.getfixturevalue("postgres")
        url = location.replace("postgresql://", "postgresql+psycopg://")
    open_history(location).close()
    return url


def test_the_migrated_schema_is_the_one_in_the_code(new_store: str) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = create_engine(new_store)
    try:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []
            # Alembic does not compare check constraints.
            found = inspect(connection)
            for table in metadata.tables.values():
                wanted = {c.name for c in table.constraints if isinstance(c, CheckConstraint)}
                assert {check["name"] for check in found.get_check_constraints(table.name)} == wanted
    finally:
        engine.dispose()


def test_an_older_store_is_lifted_and_a_copy_is_kept(path: Path, scripts: Path) -> None:
    lift(path, scripts)
    assert "note" in columns_of_profiles(path)
    copy = path.with_name("history.db.before-next")
    assert "note" not in columns_of_profiles(copy)
    with open_history(str(copy)) as history:
        assert history.profiles() == (make_profile(),)


def made_by_the_first_version(location: str) -> None:
    """A store of layout 0001 with a profile and a plan."""
    postgres = location.startswith("postgresql://")
    url = location.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url) if postgres else _sqlite_engine(Path(location), 5)
    place = Place("an old store") if postgres else Place(location, Path(location))
    upgrade.bring_up_to_date(engine.execution_options(trainfare_writes=True), place, revisions=REVISIONS[:1])
    history = SqlHistory(engine, engine.execution_options(trainfare_writes=True), place)
    history.add_profile(make_profile())
    history.add_plan(make_plan())
    history.close()


def test_a_store_of_the_first_version_gets_a_queue_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    made_by_the_first_version(str(path))
    with open_history(str(path)) as history:
        assert history.profiles() == (make_profile(),)
        assert history.plans() == (make_plan(),)
        history.add_submission(make_submission())
        assert history.submissions() == (make_submission(),)
    connection = sqlite3.connect(path.with_name("history.db.before-0002"))
    assert connection.execute("SELECT id FROM profiles").fetchall() == [("p7k2",)]
    assert connection.execute("SELECT version_num FROM trainfare_version").fetchall() == [("0001",)]
    connection.close()


def test_a_postgresql_store_of_the_first_version_gets_a_queue(postgres: str) -> None:
    made_by_the_first_version(postgres)
    with open_history(postgres) as history:
        assert history.plans() == (make_plan(),)
        history.add_submission(make_submission())
        assert history.submissions() == (make_submission(),)


def test_a_new_store_needs_no_copy(tmp_path: Path) -> None:
    open_history(str(tmp_path / "history.db")).close()
    assert [file.name for file in tmp_path.iterdir()] == ["history.db"]


def test_lifting_twice_is_lifting_once(path: Path, scripts: Path) -> None:
    lift(path, scripts)
    before = path.read_bytes()
    lift(path, scripts)
    assert path.read_bytes() == before


def test_a_migration_that_fails_halfway_changes_nothing(path: Path, scripts: Path) -> None:
    step = scripts / "versions" / "next.py"
    step.write_text(step.read_text() + "    raise RuntimeError('the power went out')\n")
    with pytest.raises(RuntimeError, match="power"):
        lift(path, scripts)
    assert "note" not in columns_of_profiles(path)
    with open_history(str(path)) as history:
        assert history.profiles() == (make_profile(),)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(path: Path, scripts: Path) -> None:
    lift(path, scripts)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer trainfare \(layout next.*left as it is. Update") as caught:
        open_history(str(path))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_newer_store_in_postgresql_is_refused(postgres: str) -> None:
    import psycopg

    open_history(postgres).close()
    with psycopg.connect(postgres) as connection:
        connection.execute("UPDATE trainfare_version SET version_num = 'next'")
    with pytest.raises(StoreError, match="newer trainfare"):
        open_history(postgres)


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="of another program"):
        open_history(str(path))
    assert path.read_bytes() == before


def open_at_once(location: str, processes: int) -> None:
    code = (
        "import sys\n"
        "from trainfare.store.open import open_history\n"
        "import alembic.command\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"open_history({location!r}).close()\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(processes)
    ]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
    for process in started:
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        assert process.communicate()[1] == b""
        assert process.returncode == 0


def test_processes_that_make_one_file_at_once_agree(tmp_path: Path) -> None:
    location = str(tmp_path / "history.db")
    open_at_once(location, 4)
    with open_history(location) as history:
        history.add_profile(make_profile())


def test_processes_that_make_one_postgresql_store_at_once_agree(postgres: str) -> None:
    open_at_once(postgres, 4)
    with open_history(postgres) as history:
        history.add_profile(make_profile())
