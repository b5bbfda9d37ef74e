"""The node's work: slots, the runner of executions, outcomes, the lease guard."""
