"""The agent, the process of crawlfleet on a node: opens sessions, syncs, runs executions, and guards its lease."""
