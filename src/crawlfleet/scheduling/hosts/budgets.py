"""The budget of one host for all nodes together: set by a person, by its robots.txt, or by the configuration."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from crawlfleet.model.host import EASE, NONE, HostLimits, Units

RATE_MAX, CONCURRENCY_MAX, DELAY_S_MAX = 10_000, 10_000, 3_600.0
RATE_MIN = 0.001
MAX_HALVINGS = 6
"""Limit on how often a rate is halved, however often a host refuses."""


Source = Literal["host", "robots", "default", "back-off"]
"""Source of a limit: a person for this host, the site's own robots.txt, the configuration; or a rate that is lowered
for a while after refusals."""


class HostBudget(NamedTuple):
    """The budget of one host, each limit with its source."""

    rate: float
    concurrency: int
    delay_s: float
    rate_from: Source = "default"
    concurrency_from: Source = "default"
    delay_from: Source = "default"

    @property
    def spacing_ms(self) -> int:
        """Milliseconds between any two requests; 0 where the budget can be divided."""
        if self.delay_s <= 0 and self.rate >= 1:
            return 0
        return math.ceil(1000 * EASE * max(self.delay_s, 1 / self.rate))

    @property
    def pool(self) -> Units:
        if self.concurrency < 1:
            return NONE
        return Units(1 if self.spacing_ms else int(self.rate), self.concurrency)


def effective_budget(own: HostLimits, defaults: HostLimits, crawl_delay_s: float, level: int) -> HostBudget:
    """The budget in effect: a person's setting for the host comes first, then the site's own, then the defaults."""
    budget = HostBudget(defaults.rate or 1.0, defaults.concurrency or 1, defaults.delay_s or 0.0)
    if own.rate is not None:
        budget = budget._replace(rate=own.rate, rate_from="host")
    if own.concurrency is not None:
        budget = budget._replace(concurrency=own.concurrency, concurrency_from="host")
    if own.delay_s is not None:
        budget = budget._replace(delay_s=own.delay_s, delay_from="host")
    elif crawl_delay_s > 0:
        budget = budget._replace(delay_s=crawl_delay_s, delay_from="robots")
    if level > 0:
        slower = budget.rate / 2 ** min(level, MAX_HALVINGS)
        budget = budget._replace(rate=float(int(slower)) if slower >= 1 else slower, rate_from="back-off")
    return budget


def parse_rate(value: object) -> float:
    """Check a rate; above one only the whole part counts, as budgets are divided in whole requests. Raises
    ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not RATE_MIN <= value <= RATE_MAX:
        raise ValueError(f"requests a second, from {RATE_MIN} to {RATE_MAX}")
    return float(value) if value < 1 else float(int(value))


def parse_concurrency(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= CONCURRENCY_MAX:
        raise ValueError(f"a whole number from 1 to {CONCURRENCY_MAX}")
    return value


def parse_delay(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= DELAY_S_MAX:
        raise ValueError(f"seconds from 0 to {DELAY_S_MAX:g}")
    return float(value)
