"""Executors: the registry of task types, executor processes seen from inside and outside, and their protocol."""
