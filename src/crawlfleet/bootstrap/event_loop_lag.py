"""Measures the lag of the event loop: how much later than asked for a timer fires."""

from __future__ import annotations

import asyncio
from time import perf_counter

from crawlfleet.observe.metrics import Histogram
from crawlfleet.observe.recent_times import RecentTimes

INTERVAL_S = 0.5


async def measure_event_loop_lag(lag: Histogram, recent: RecentTimes) -> None:
    """Measure until cancelled."""
    while True:
        began = perf_counter()
        await asyncio.sleep(INTERVAL_S)
        late_s = max(0.0, perf_counter() - began - INTERVAL_S)
        lag.observe(late_s)
        recent.add_time(late_s * 1000)
