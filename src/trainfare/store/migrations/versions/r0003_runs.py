"""Runs with their facts, observations and leases.

They replace tables of the first version, which no command ever wrote to.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

FACT_KINDS = (
    "launch intended",
    "launch refused",
    "machines seen",
    "machines ready",
    "setup failed",
    "program started",
    "program ended",
    "machines lost",
    "results collected",
    "results lost",
    "termination intended",
    "termination failed",
    "terminated",
    "run ended",
    "stop asked",
    "warned",
)


def upgrade() -> None:
    op.drop_table("observations")
    op.drop_index("ix_runs_plan_id", "runs")
    op.drop_table("runs")
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("plan_id", sa.Text),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_runs_plan_id"),
    )
    op.create_index("ix_runs_plan_id", "runs", ["plan_id"])
    op.create_table(
        "facts",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_facts"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_facts_run_id"),
        sa.CheckConstraint("number >= 0", name="ck_facts_number"),
        sa.CheckConstraint(f"kind IN ({', '.join(repr(kind) for kind in FACT_KINDS)})", name="ck_facts_kind"),
    )
    op.create_table(
        "observations",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "node", "number", name="pk_observations"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_observations_run_id"),
        sa.CheckConstraint("attempt >= 1", name="ck_observations_attempt"),
        sa.CheckConstraint("node >= 0", name="ck_observations_node"),
        sa.CheckConstraint("number >= 1", name="ck_observations_number"),
    )
    op.create_index("ix_observations_run_id", "observations", ["run_id", "kind", "attempt", "node", "number"])
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
        sa.CheckConstraint("token >= 0", name="ck_leases_token"),
    )
