"""Services over many tasks: groups, shards, flows, schedules, crawls over many nodes, products."""
