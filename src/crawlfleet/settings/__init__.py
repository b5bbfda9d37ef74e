"""Settings of each process: one class per process, one way to load them, and every value with its source."""
