"""Routes that nodes call: sync, and what running executions send and ask."""
