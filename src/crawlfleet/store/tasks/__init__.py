"""Tables of tasks: insert, assign, transitions, lanes, parked tasks, and queries."""
