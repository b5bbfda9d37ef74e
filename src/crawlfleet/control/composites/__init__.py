"""Services over many tasks: groups, shards, flows, schedules, shop flows, crawls over many nodes, products."""
