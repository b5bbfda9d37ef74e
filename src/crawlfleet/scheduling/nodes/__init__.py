"""Judging nodes: leases, health, faults, and how many slots a node gets."""
