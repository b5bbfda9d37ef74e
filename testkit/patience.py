"""How long tests wait: deadlines that only end what hangs, and bounds that are promised."""

from __future__ import annotations

import os

PATIENCE_S = 120.0
"""A deadline for what has to happen at some time: a busy machine may take many times as long as an idle one."""
_BUSY = 2.0
"""By how much what waits for a core is slowed down more than its share of the cores."""


def promised(seconds: float) -> float:
    """A bound that is promised, on a machine as busy as this one: with more to do than cores, everything is slower."""
    return seconds * max(1.0, _BUSY * os.getloadavg()[0] / len(os.sched_getaffinity(0)))
