"""Figures: rows of integers that count what happened, and are only ever added up."""
