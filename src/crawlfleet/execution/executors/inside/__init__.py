"""Inside an executor process: its entry, its loop, and what executions send out of it."""
