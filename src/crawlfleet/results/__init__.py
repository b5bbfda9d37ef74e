"""The results of executions: where chunks are stored, and how they are read in pages, exported and measured."""
