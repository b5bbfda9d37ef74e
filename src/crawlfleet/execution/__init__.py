"""What runs on a node: the agent, and below it the work itself. It knows masters only through their messages."""
