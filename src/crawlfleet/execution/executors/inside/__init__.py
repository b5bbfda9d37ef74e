"""Inside an executor process: its entry, its loop, and the output stream of each execution."""
