"""Settings of Python's garbage collector for a process that works in batches."""

from __future__ import annotations

import gc

_YOUNG = 50_000
"""Threshold of the youngest generation. A batch of 500 tasks makes thousands of tuples that die with it; the default of
700 would scan them often."""


def tune_collector() -> None:
    """Freeze the existing objects and set the thresholds; called once, when a process has loaded what it keeps for
    good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 50)
