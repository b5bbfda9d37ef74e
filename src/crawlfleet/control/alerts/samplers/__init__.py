"""Samplers: what the rules of each kind measure; every read is bounded."""
