"""Routes about tasks: submit, show, list, bulk changes, dead letters, task types."""
