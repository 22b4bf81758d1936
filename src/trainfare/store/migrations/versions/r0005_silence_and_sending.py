"""Facts of more kinds: the program was sent, machines fall silent, answer again, or are given up.

SQLite cannot change a condition of a table, so the table is made again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

FACT_KINDS = (
    "launch intended",
    "launch refused",
    "machines seen",
    "machines ready",
    "setup failed",
    "program sent",
    "program started",
    "program ended",
    "machines lost",
    "machines silent",
    "machines answer",
    "machines abandoned",
    "results collected",
    "results lost",
    "checkpoint fetched",
    "termination intended",
    "termination failed",
    "terminated",
    "run ended",
    "stop asked",
    "move asked",
    "warned",
)
CONDITION = f"kind IN ({', '.join(repr(kind) for kind in FACT_KINDS)})"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("ck_facts_kind", "facts", type_="check")
        op.create_check_constraint("ck_facts_kind", "facts", CONDITION)
        return
    op.rename_table("facts", "old_facts")
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
        sa.CheckConstraint(CONDITION, name="ck_facts_kind"),
    )
    op.execute(
        "INSERT INTO facts (run_id, number, kind, document, sha256) "
        "SELECT run_id, number, kind, document, sha256 FROM old_facts"
    )
    op.drop_table("old_facts")
