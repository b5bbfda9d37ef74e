"""A cancelled caller waits for its thread, and the thread learns that it shall end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from crawlfleet.bootstrap.maintenance.threads import Interrupted, StopFlag, run_in_thread
from testkit.patience import PATIENCE_S


async def test_a_cancellation_interrupts_the_thread_and_waits_for_its_end() -> None:
    stop, began, ended = StopFlag(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        try:
            while True:
                stop.check()
        finally:
            ended.set()

    task = asyncio.ensure_future(run_in_thread(work, stop.set))
    assert await asyncio.to_thread(began.wait, PATIENCE_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    with pytest.raises(Interrupted):
        stop.check()


async def test_values_and_errors_come_through() -> None:
    assert await run_in_thread(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)
