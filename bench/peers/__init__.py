"""Queues that people use today, measured beside ours."""
