"""The server: tokens with their revocation, and tasks with their events."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
    op.create_index("ix_tokens_secret_sha256", "tokens", ["secret_sha256"], unique=True)
    op.create_table(
        "token_changes",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_token_changes"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_token_changes_token_id"),
        sa.CheckConstraint("change IN ('revoked')", name="ck_token_changes_change"),
    )
    op.create_index("ix_token_changes_token_id", "token_changes", ["token_id"], unique=True)
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
    )
    op.create_table(
        "task_events",
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "number", name="pk_task_events"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_task_events_task_id"),
        sa.CheckConstraint("number >= 0", name="ck_task_events_number"),
    )
