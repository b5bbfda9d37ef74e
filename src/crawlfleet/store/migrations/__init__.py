"""The history of the tables. `store.migrate` runs it at start."""
