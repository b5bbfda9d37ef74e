"""Tables of nodes: registration, sessions, slots, health, task types, leadership."""
