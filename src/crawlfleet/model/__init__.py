"""The model: records, statuses and the table of legal transitions. Pure."""
