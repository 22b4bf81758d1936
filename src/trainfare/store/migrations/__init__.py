"""Alembic's scripts, one a change of the schema, in order. A released one is never edited."""
