"""Measurements: ours beside a raw limit in the same run, on the same machine, as ratios."""
