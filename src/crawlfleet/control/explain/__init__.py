"""Explanations of why a task or group is in its state, computed from the store on demand."""
