"""Time limits of tests: deadlines that only end what hangs, and bounds that are promised."""

from __future__ import annotations

import os

PATIENCE_S = 120.0
"""Deadline for what has to happen at some time: a busy machine may take many times as long as an idle one."""
_BUSY = 2.0
"""Factor by which waiting for a core slows work down beyond its share of the cores."""


def promised(seconds: float) -> float:
    """Return a promised bound for a machine as busy as this one: with more load than cores, everything is slower."""
    return seconds * max(1.0, _BUSY * os.getloadavg()[0] / len(os.sched_getaffinity(0)))
