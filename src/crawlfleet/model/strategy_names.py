"""Names of the built-in placement strategies, as settings and requests use them.

`scheduling.placement.strategies` holds the strategy of each name.
"""

from __future__ import annotations

STRATEGIES = (
    "anti_crawling",
    "content_based",
    "geo_location",
    "largest",
    "least_loaded",
    "least_tasks",
    "random",
    "round_robin",
    "weighted",
)
DEFAULT_STRATEGY = "least_loaded"
