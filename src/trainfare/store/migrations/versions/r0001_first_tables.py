"""Profiles, plans with their estimates, runs with their observations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("measured_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
    )
    op.create_table(
        "profile_changes",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_profile_changes"),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name="fk_profile_changes_profile_id"),
        sa.CheckConstraint("change IN ('removed', 'restored')", name="ck_profile_changes_change"),
    )
    op.create_index("ix_profile_changes_profile_id", "profile_changes", ["profile_id"])
    op.create_table(
        "plans",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
    )
    op.create_table(
        "estimates",
        sa.Column("plan_id", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "rank", name="pk_estimates"),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_estimates_plan_id"),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name="fk_estimates_profile_id"),
        sa.CheckConstraint("rank >= 0", name="ck_estimates_rank"),
    )
    op.create_index("ix_estimates_profile_id", "estimates", ["profile_id"])
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("plan_id", sa.Text, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_runs_plan_id"),
    )
    op.create_index("ix_runs_plan_id", "runs", ["plan_id"])
    op.create_table(
        "observations",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_observations"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_observations_run_id"),
        sa.CheckConstraint("number >= 0", name="ck_observations_number"),
    )
