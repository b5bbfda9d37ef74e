"""Background loops: one file each, every one with a `run_once(now)` that tests can call."""
