"""The agent's side of executor processes: start, supervision, running executions, uploads."""
