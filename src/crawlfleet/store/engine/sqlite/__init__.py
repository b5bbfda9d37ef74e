"""The SQLite engine: one file, one writer."""
