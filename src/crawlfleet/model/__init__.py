"""What exists: records, statuses and the table of legal transitions. Pure."""
