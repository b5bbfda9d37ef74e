"""The agent's side of executor processes: starting, supervising, talking to them."""
