"""Flows: the graph of steps, what releases a step, and the expressions on its edges."""
