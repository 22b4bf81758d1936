"""The tables of a store. A row holds a noun's JSON document, the columns by which it is found, and a checksum.

The schema of a real database is created by `migrations/`; a test checks that both are the same.
"""

from typing import get_args

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

from trainfare.model.run import FactKind

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Every migration in order. They are listed here so that opening a store that is up to date does not load Alembic."""

VERSION_TABLE = "trainfare_version"
"""The table that holds the revision. The name differs from Alembic's own, so that another program that uses Alembic
can share the PostgreSQL database."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)


def _contents() -> tuple[Column[str], Column[str]]:
    return Column("document", Text, nullable=False), Column("sha256", String(64), nullable=False)


profiles = Table(
    "profiles",
    metadata,
    Column("id", Text, primary_key=True),
    Column("measured_at", Text, nullable=False),
    *_contents(),
)

profile_changes = Table(
    "profile_changes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("profile_id", ForeignKey("profiles.id"), nullable=False),
    Column("change", Text, nullable=False),
    CheckConstraint("change IN ('removed', 'restored')", name="change"),
    Index(None, "profile_id"),
)
"""The last change of a profile says whether it is present; a profile without a change is."""

plans = Table(
    "plans",
    metadata,
    Column("id", Text, primary_key=True),
    Column("made_at", Text, nullable=False),
    *_contents(),
)

estimates = Table(
    "estimates",
    metadata,
    Column("plan_id", ForeignKey("plans.id"), primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("profile_id", ForeignKey("profiles.id"), nullable=False),
    *_contents(),
    CheckConstraint("rank >= 0", name="rank"),
    Index(None, "profile_id"),
)
"""Rank 0 is the chosen estimate; the runners-up follow in their order."""

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("plan_id", ForeignKey("plans.id")),
    Column("made_at", Text, nullable=False),
    *_contents(),
    Index(None, "plan_id"),
)
"""A run without a plan is of a program that was never profiled."""

facts = Table(
    "facts",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    *_contents(),
    CheckConstraint("number >= 0", name="number"),
    CheckConstraint(f"kind IN ({', '.join(repr(kind) for kind in get_args(FactKind))})", name="kind"),
)
"""The facts of a run, numbered from 0 without a gap."""

observations = Table(
    "observations",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    *_contents(),
    CheckConstraint("attempt >= 1", name="attempt"),
    CheckConstraint("node >= 0", name="node"),
    CheckConstraint("number >= 1", name="number"),
    Index(None, "run_id", "kind", "attempt", "node", "number"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    Column("token", Integer, nullable=False),
    Column("expires_at", Text, nullable=False),
    CheckConstraint("token >= 0", name="token"),
)
"""One row a name, which stays when the lease is released, so that its token can grow; the holder is then NULL."""

submissions = Table(
    "submissions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("submitted_at", Text, nullable=False),
    *_contents(),
)

submission_profiles = Table(
    "submission_profiles",
    metadata,
    Column("submission_id", ForeignKey("submissions.id"), primary_key=True),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("profile_id", ForeignKey("profiles.id"), nullable=False),
    CheckConstraint("rank >= 0", name="rank"),
    Index(None, "profile_id"),
)
"""The profiles that a submission refers to, in the order of its document."""

submission_changes = Table(
    "submission_changes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("submission_id", ForeignKey("submissions.id"), nullable=False),
    Column("change", Text, nullable=False),
    CheckConstraint("change IN ('withdrawn')", name="change"),
    Index(None, "submission_id"),
)
"""A submission without a change is waiting."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("made_at", Text, nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    *_contents(),
    Index(None, "secret_sha256", unique=True),
)

token_changes = Table(
    "token_changes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("token_id", ForeignKey("tokens.id"), nullable=False),
    Column("change", Text, nullable=False),
    CheckConstraint("change IN ('revoked')", name="change"),
    Index(None, "token_id", unique=True),
)
"""A token is revoked once: of two browsers that use one link, the second is refused."""

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("made_at", Text, nullable=False),
    *_contents(),
)

task_events = Table(
    "task_events",
    metadata,
    Column("task_id", ForeignKey("tasks.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    *_contents(),
    CheckConstraint("number >= 0", name="number"),
)
"""The events of a task, numbered from 0 without a gap."""
