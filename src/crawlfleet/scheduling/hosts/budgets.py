"""What may be asked of one host, all nodes together: said by a person, by its robots.txt, by the configuration."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from crawlfleet.model.host_budget import EASE, NONE, HostLimits, Units

RATE_MAX, CONCURRENCY_MAX, DELAY_S_MAX = 10_000, 10_000, 3_600.0
RATE_LEAST = 0.001
SLOWER_MOST = 6
"""Halved so many times at most, however often a host refuses."""


Source = Literal["host", "robots", "default", "back-off"]
"""Who said it: a person for this host, the site's own robots.txt, the configuration; or it is less than was said, for a
while, after refusals."""


class Budget(NamedTuple):
    rate: float
    concurrency: int
    delay_s: float
    rate_from: Source = "default"
    concurrency_from: Source = "default"
    delay_from: Source = "default"

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
    budget = Budget(usual.rate or 1.0, usual.concurrency or 1, usual.delay_s or 0.0)
    if own.rate is not None:
        budget = budget._replace(rate=own.rate, rate_from="host")
    if own.concurrency is not None:
        budget = budget._replace(concurrency=own.concurrency, concurrency_from="host")
    if own.delay_s is not None:
        budget = budget._replace(delay_s=own.delay_s, delay_from="host")
    elif crawl_delay_s > 0:
        budget = budget._replace(delay_s=crawl_delay_s, delay_from="robots")
    if level > 0:
        slower = budget.rate / 2 ** min(level, SLOWER_MOST)
        budget = budget._replace(rate=float(int(slower)) if slower >= 1 else slower, rate_from="back-off")
    return budget


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
