"""Tables of groups, flows, schedules, crawls over many nodes, and products."""
