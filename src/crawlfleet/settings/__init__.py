"""What each process can be told: one class per process, one way to load them, every value with its source."""
