"""Services that need both control and execution."""
