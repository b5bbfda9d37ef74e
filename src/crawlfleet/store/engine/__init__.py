"""The database engines: the transaction protocol, SQLite, PostgreSQL, and migrations."""
