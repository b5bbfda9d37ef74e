"""The lag of the event loop is measured by what blocks it."""

import asyncio
import time

from crawlfleet.bootstrap import event_loop_lag
from crawlfleet.observe.metrics import Histogram
from crawlfleet.observe.recent_times import RecentTimes
from testkit.patience import promised


def block_loop(seconds: float) -> None:
    time.sleep(seconds)


class SignallingHistogram(Histogram):
    """A histogram that wakes a waiter at the first span."""

    def __init__(self) -> None:
        super().__init__()
        self.is_used = asyncio.Event()

    def observe(self, seconds: float) -> None:
        super().observe(seconds)
        self.is_used.set()


async def test_a_blocked_loop_is_seen() -> None:
    lag, recent = SignallingHistogram(), RecentTimes()
    measuring = asyncio.create_task(event_loop_lag.measure_event_loop_lag(lag, recent))
    try:
        await asyncio.sleep(0)
        # The timer is due while the loop is blocked.
        block_loop(event_loop_lag.INTERVAL_S + 0.3)
        async with asyncio.timeout(promised(5)):
            await lag.is_used.wait()
    finally:
        measuring.cancel()
    assert lag.sum_s >= 0.3
    assert (recent.percentile(0.99) or 0.0) >= 300
