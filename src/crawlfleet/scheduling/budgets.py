"""What may be asked of one host, all nodes together: said by a person, by its robots.txt, by the configuration."""

from __future__ import annotations

import math
from typing import NamedTuple

from crawlfleet.model.host_budget import NONE, HostLimits, Units
from crawlfleet.scheduling.grants import EASE

RATE_MAX, CONCURRENCY_MAX, DELAY_S_MAX = 10_000, 10_000, 3_600.0
RATE_LEAST = 0.001
SLOWER_MOST = 6
"""Halved so many times at most, however often a host refuses."""


class Budget(NamedTuple):
    rate: float
    concurrency: int
    delay_s: float
    rate_from: str = "default"
    """host (a person said it for this one), default, or back-off (less than was said, after refusals)."""
    concurrency_from: str = "default"
    delay_from: str = "default"
    """host, robots or default."""

    @property
    def spacing_ms(self) -> int:
        """Between any two requests; 0 where the budget can be divided."""
        if self.delay_s <= 0 and self.rate >= 1:
            return 0
        return math.ceil(1000 * EASE * max(self.delay_s, 1 / self.rate))

    @property
    def pool(self) -> Units:
        if self.concurrency < 1:
            return NONE
        return Units(1 if self.spacing_ms else int(self.rate), self.concurrency)


def budget_of(own: HostLimits, usual: HostLimits, crawl_delay_s: float, level: int) -> Budget:
    """A person's word for the host comes first, then the site's own, then what holds for all."""
    rate, rate_from = (own.rate, "host") if own.rate is not None else (usual.rate or 1.0, "default")
    if level > 0:
        slower = rate / 2 ** min(level, SLOWER_MOST)
        rate, rate_from = (float(int(slower)) if slower >= 1 else slower), "back-off"
    delay_s, delay_from = usual.delay_s or 0.0, "default"
    if own.delay_s is not None:
        delay_s, delay_from = own.delay_s, "host"
    elif crawl_delay_s > 0:
        delay_s, delay_from = crawl_delay_s, "robots"
    concurrency, concurrency_from = usual.concurrency or 1, "default"
    if own.concurrency is not None:
        concurrency, concurrency_from = own.concurrency, "host"
    return Budget(rate, concurrency, delay_s, rate_from, concurrency_from, delay_from)


def read_rate(value: object) -> float:
    """Above one the whole part counts: a budget is divided in whole requests. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not RATE_LEAST <= value <= RATE_MAX:
        raise ValueError(f"requests a second, from {RATE_LEAST} to {RATE_MAX}")
    return float(value) if value < 1 else float(int(value))


def read_concurrency(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= CONCURRENCY_MAX:
        raise ValueError(f"a whole number from 1 to {CONCURRENCY_MAX}")
    return value


def read_delay(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= DELAY_S_MAX:
        raise ValueError(f"seconds from 0 to {DELAY_S_MAX:g}")
    return float(value)
