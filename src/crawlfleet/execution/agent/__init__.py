"""The agent: our process on a node. Joins a session, syncs, runs what it is given, and fences itself."""
