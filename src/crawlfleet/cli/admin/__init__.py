"""Commands for operators: audit, configuration, events, projects, status, tokens."""
