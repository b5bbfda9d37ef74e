"""The state machine of a task, and when a failed one is tried again."""
