"""Stores of other versions: older ones are upgraded after a backup, newer ones are left unchanged."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, create_engine, inspect

from tests.makers import NOON, make_fact, make_observation, make_plan, make_profile, make_run, make_submission
from trainfare.errors import StoreError
from trainfare.model.lease import run_lease_name
from trainfare.store import upgrade
from trainfare.store.database_errors import StoreLocation
from trainfare.store.open import _sqlite_engine, open_history
from trainfare.store.schema import REVISIONS, VERSION_TABLE, metadata
from trainfare.store.sql import SqlHistory

NEXT = (*REVISIONS, "next")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one profile."""
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        history.profiles.add(make_profile())
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


def upgrade_store(path: Path, scripts: Path) -> None:
    engine = _sqlite_engine(path, 5)
    try:
        upgrade.upgrade_schema(
            engine.execution_options(trainfare_writes=True),
            StoreLocation(str(path), path),
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


def test_the_revisions_in_the_code_are_those_of_the_scripts() -> None:
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
                expected = {c.name for c in table.constraints if isinstance(c, CheckConstraint)}
                assert {check["name"] for check in found.get_check_constraints(table.name)} == expected
    finally:
        engine.dispose()


def test_an_older_store_is_upgraded_after_a_backup(path: Path, scripts: Path) -> None:
    upgrade_store(path, scripts)
    assert "note" in columns_of_profiles(path)
    copy = path.with_name("history.db.before-next")
    assert "note" not in columns_of_profiles(copy)
    with open_history(str(copy)) as history:
        assert history.profiles.all() == (make_profile(),)


def create_store_of_schema_1(location: str) -> None:
    """Create a store of schema 0001 with a profile and a plan."""
    postgres = location.startswith("postgresql://")
    url = location.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url) if postgres else _sqlite_engine(Path(location), 5)
    named = StoreLocation("an old store") if postgres else StoreLocation(location, Path(location))
    upgrade.upgrade_schema(engine.execution_options(trainfare_writes=True), named, revisions=REVISIONS[:1])
    history = SqlHistory(engine, engine.execution_options(trainfare_writes=True), named)
    history.profiles.add(make_profile())
    history.plans.add(make_plan())
    history.close()


def test_a_store_of_schema_1_gets_a_queue_and_keeps_its_nouns(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    create_store_of_schema_1(str(path))
    with open_history(str(path)) as history:
        assert history.profiles.all() == (make_profile(),)
        assert history.plans.all() == (make_plan(),)
        history.submissions.add(make_submission())
        assert history.submissions.all() == (make_submission(),)
    connection = sqlite3.connect(path.with_name("history.db.before-0006"))
    assert connection.execute("SELECT id FROM profiles").fetchall() == [("p7k2",)]
    assert connection.execute("SELECT version_num FROM trainfare_version").fetchall() == [("0001",)]
    connection.close()


def test_facts_of_schema_3_stay_and_a_checkpoint_can_follow(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    engine = _sqlite_engine(path, 5)
    writer = engine.execution_options(trainfare_writes=True)
    upgrade.upgrade_schema(writer, StoreLocation(str(path), path), revisions=REVISIONS[:3])
    old = SqlHistory(engine, writer, StoreLocation(str(path), path))
    old.profiles.add(make_profile())
    old.plans.add(make_plan())
    old.runs.add(make_run())
    lease = old.leases.take(run_lease_name("r93"), holder="a", seconds=600, now=NOON)
    assert lease is not None
    facts = [make_fact(number=0), make_fact(kind="machines seen", number=1)]
    for fact in facts:
        old.facts.append(fact, lease=lease)
    old.close()
    with open_history(str(path)) as history:
        assert history.facts.of("r93") == tuple(facts)
        fetched = make_fact(kind="checkpoint fetched", number=2)
        history.facts.append(fetched, lease=lease)
        assert history.facts.of("r93") == (*facts, fetched)


def test_a_postgresql_store_of_schema_1_gets_a_queue(postgres: str) -> None:
    create_store_of_schema_1(postgres)
    with open_history(postgres) as history:
        assert history.plans.all() == (make_plan(),)
        history.submissions.add(make_submission())
        assert history.submissions.all() == (make_submission(),)


def insert_documents_of_version_1(path: Path) -> dict[str, Any]:
    """Fill a store of schema 0001 with rows as the first release wrote them, and return their documents."""
    documents: dict[str, Any] = json.loads(Path(__file__).with_name("version_1.json").read_text())

    engine = _sqlite_engine(path, 5)
    writer = engine.execution_options(trainfare_writes=True)
    upgrade.upgrade_schema(writer, StoreLocation(str(path), path), revisions=REVISIONS[:1])
    engine.dispose()
    connection = sqlite3.connect(path)

    def insert(table: str, name: str, document: Any, *columns: object) -> None:
        text = json.dumps(document)
        checksum = hashlib.sha256(f"{document['kind']}\n{name}\n{text}".encode()).hexdigest()
        marks = ", ".join("?" * (len(columns) + 2))
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", (*columns, text, checksum))  # noqa: S608 # the names of the tables are constants of this file

    moment = "2026-11-16T12:00:00.000000Z"
    with connection:
        insert("profiles", "p7k2", documents["profile"], "p7k2", moment)
        for plan, estimates in ((each["plan"], each["estimates"]) for each in documents["plans"]):
            insert("plans", plan["id"], plan, plan["id"], moment)
            for rank, estimate in enumerate(estimates):
                insert("estimates", f"{plan['id']}/{rank}", estimate, plan["id"], rank, "p7k2")
        insert("runs", "r93", documents["run"], "r93", "n4t9", moment)
        insert("observations", "r93/0", documents["observation"], "r93", 0)
    connection.close()
    return documents


def test_documents_of_version_1_are_listed_and_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    documents = insert_documents_of_version_1(path)
    with open_history(str(path)) as history:
        (profile,) = history.profiles.all()
        assert (profile.micro_batch_size, profile.accumulation_steps, profile.world_size) == (16, 2, 4)
        assert profile.effective_batch_size == documents["profile"]["global_batch_size"] == 128
        assert history.profiles.get("p7k2") == profile
        assert {plan.id for plan in history.plans.all()} == {"n4t9", "n5"}
        for id_ in ("n4t9", "n5"):
            assert history.plans.get(id_).chosen == make_plan().chosen
        assert history.plans.get("n4t9").runners_up == make_plan().runners_up
        assert history.plans.get("n4t9").front == (make_plan().chosen,)
        assert len(history.estimates.of("p7k2")) == 3
        assert history.damaged == ()


def test_rows_of_runs_that_no_release_wrote_are_only_in_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    insert_documents_of_version_1(path)
    with open_history(str(path)) as history:
        assert history.runs.all() == ()
        history.runs.add(make_run())
        history.observations.add_all([make_observation()])
        assert history.runs.all() == (make_run(),)
    connection = sqlite3.connect(path.with_name("history.db.before-0006"))
    assert connection.execute("SELECT id FROM runs").fetchall() == [("r93",)]
    assert connection.execute("SELECT run_id, number FROM observations").fetchall() == [("r93", 0)]
    connection.close()


def test_a_stored_profile_of_version_1_can_be_removed_and_restored(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    insert_documents_of_version_1(path)
    with open_history(str(path)) as history:
        (profile,) = history.profiles.all()
        history.profiles.remove(profile.id)
        history.profiles.add(profile)
        assert history.profiles.all() == (profile,)


def test_a_new_store_needs_no_backup(tmp_path: Path) -> None:
    open_history(str(tmp_path / "history.db")).close()
    assert [file.name for file in tmp_path.iterdir()] == ["history.db"]


def test_upgrading_twice_is_upgrading_once(path: Path, scripts: Path) -> None:
    upgrade_store(path, scripts)
    before = path.read_bytes()
    upgrade_store(path, scripts)
    assert path.read_bytes() == before


def test_a_migration_that_fails_halfway_changes_nothing(path: Path, scripts: Path) -> None:
    step = scripts / "versions" / "next.py"
    step.write_text(step.read_text() + "    raise RuntimeError('the power went out')\n")
    with pytest.raises(RuntimeError, match="power"):
        upgrade_store(path, scripts)
    assert "note" not in columns_of_profiles(path)
    with open_history(str(path)) as history:
        assert history.profiles.all() == (make_profile(),)


def test_a_store_of_a_newer_version_is_refused_and_left_unchanged(path: Path, scripts: Path) -> None:
    upgrade_store(path, scripts)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"newer trainfare \(schema next.*left unchanged. Update") as caught:
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


def test_the_database_of_another_program_is_refused_and_left_unchanged(tmp_path: Path) -> None:
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


def test_processes_can_create_one_file_at_the_same_time(tmp_path: Path) -> None:
    location = str(tmp_path / "history.db")
    open_at_once(location, 4)
    with open_history(location) as history:
        history.profiles.add(make_profile())


def test_processes_can_create_one_postgresql_store_at_the_same_time(postgres: str) -> None:
    open_at_once(postgres, 4)
    with open_history(postgres) as history:
        history.profiles.add(make_profile())
