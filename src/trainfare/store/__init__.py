"""History in SQLite or PostgreSQL: appended, never overwritten."""
