"""Composition root: the only package that wires the parts of a process together."""
