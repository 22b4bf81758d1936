"""The queue: submissions, the profiles that they are based on, and their withdrawal."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("submitted_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
    )
    op.create_table(
        "submission_profiles",
        sa.Column("submission_id", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("profile_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("submission_id", "rank", name="pk_submission_profiles"),
        sa.ForeignKeyConstraint(["submission_id"], ["submissions.id"], name="fk_submission_profiles_submission_id"),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name="fk_submission_profiles_profile_id"),
        sa.CheckConstraint("rank >= 0", name="ck_submission_profiles_rank"),
    )
    op.create_index("ix_submission_profiles_profile_id", "submission_profiles", ["profile_id"])
    op.create_table(
        "submission_changes",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("submission_id", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_submission_changes"),
        sa.ForeignKeyConstraint(["submission_id"], ["submissions.id"], name="fk_submission_changes_submission_id"),
        sa.CheckConstraint("change IN ('withdrawn')", name="ck_submission_changes_change"),
    )
    op.create_index("ix_submission_changes_submission_id", "submission_changes", ["submission_id"])
