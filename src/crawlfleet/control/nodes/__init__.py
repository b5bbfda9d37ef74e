"""Services for nodes: registration, sessions, heartbeats, draining, and the sync call with its parts."""
