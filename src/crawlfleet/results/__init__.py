"""What executions leave behind: where chunks are kept, and how they are read in pages."""
