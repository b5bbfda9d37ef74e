"""Quotas of projects: limits on what waits and runs, and daily quotas."""
