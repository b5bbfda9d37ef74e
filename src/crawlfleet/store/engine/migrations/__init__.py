"""The history of the tables. `store.engine.migrate` runs it at start."""
