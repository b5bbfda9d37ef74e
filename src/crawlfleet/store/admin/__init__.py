"""Tables of tokens, audit log, configuration, events, evidence and counters; and retention."""
