"""Waiting for tasks and groups: progress bars, rates, and how they ended."""
