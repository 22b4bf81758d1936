"""Run by Alembic, on the connection and in the transaction of `upgrade.upgrade_schema`."""

from alembic import context

from trainfare.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    # SQLite cannot alter a constraint: it needs a new table and a copy.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
