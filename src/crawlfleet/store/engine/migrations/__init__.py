"""The migrations of the tables, in order. `store.engine.migrate` runs them at start."""
