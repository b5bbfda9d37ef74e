"""One watcher for many waiters: it starts with the first, wakes those that are due, and rests without any."""

from __future__ import annotations

import asyncio

import pytest

from crawlfleet.control.support.watcher import Watcher, wake_waiter

LONG_S = 30.0


class Numbers:
    """Waits until a number is above that of the waiter; the test says when it is compared."""

    def __init__(self) -> None:
        self.watcher: Watcher[int] = Watcher(self._watch, "numbers")
        self.last = 0
        self.starts = 0
        self.error: Exception | None = None
        self._changed = asyncio.Event()

    async def wait_above(self, number: int, timeout_s: float = LONG_S) -> bool:
        with self.watcher.add_waiter(number) as waiter:
            await self.watcher.wait_for(waiter, timeout_s)
            return waiter.done()

    def change(self, last: int) -> None:
        self.last = last
        self._changed.set()

    async def _watch(self) -> None:
        self.starts += 1
        if self.error is not None:
            raise self.error
        while self.watcher.has_waiters:
            await self._changed.wait()
            self._changed.clear()
            for waiter, number in self.watcher.list_waiters():
                if self.last > number:
                    wake_waiter(waiter)
            # Those that were woken leave before the watcher looks again.
            await asyncio.sleep(0)
            await asyncio.sleep(0)


async def settle() -> None:
    """Let every task go on until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_watch_serves_all_waiters_and_wakes_those_that_are_due() -> None:
    numbers = Numbers()
    low, high = asyncio.create_task(numbers.wait_above(1)), asyncio.create_task(numbers.wait_above(5))
    await settle()
    assert sorted(number for _, number in numbers.watcher.list_waiters()) == [1, 5]
    numbers.change(2)
    assert await low
    assert [number for _, number in numbers.watcher.list_waiters()] == [5]
    assert not high.done()
    numbers.change(6)
    assert await high
    assert numbers.starts == 1


async def test_it_rests_without_waiters_and_starts_again_with_the_next() -> None:
    numbers = Numbers()
    first = asyncio.create_task(numbers.wait_above(0))
    await settle()
    numbers.change(1)
    assert await first
    await settle()
    assert not numbers.watcher.has_waiters
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "numbers"]
    second = asyncio.create_task(numbers.wait_above(1))
    await settle()
    numbers.change(2)
    assert await second
    assert numbers.starts == 2


async def test_a_waiter_that_is_woken_before_it_waits_starts_no_watch() -> None:
    numbers = Numbers()
    with numbers.watcher.add_waiter(0) as waiter:
        wake_waiter(waiter)
        wake_waiter(waiter)
        await numbers.watcher.wait_for(waiter, LONG_S)
        assert waiter.done()
    assert numbers.starts == 0


async def test_a_wait_ends_with_its_timeout() -> None:
    numbers = Numbers()
    assert not await numbers.wait_above(0, timeout_s=0.0)
    assert numbers.watcher.list_waiters() == []
    numbers.change(1)


async def test_a_caller_that_is_cancelled_leaves_the_others_waiting() -> None:
    numbers = Numbers()
    gone, stays = asyncio.create_task(numbers.wait_above(0)), asyncio.create_task(numbers.wait_above(0))
    await settle()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    numbers.change(1)
    assert await stays


async def test_closing_wakes_all_and_lets_no_caller_wait() -> None:
    numbers = Numbers()
    waiting = [asyncio.create_task(numbers.wait_above(number)) for number in range(3)]
    await settle()
    numbers.watcher.close()
    assert await asyncio.gather(*waiting) == [True] * 3
    assert numbers.watcher.is_closed
    numbers.change(0)
    await settle()
    assert await numbers.wait_above(9)
    assert not numbers.watcher.has_waiters
    assert numbers.starts == 1


async def test_a_watch_that_failed_is_started_again_by_the_next_caller() -> None:
    numbers = Numbers()
    numbers.error = ValueError("broken")
    first = asyncio.create_task(numbers.wait_above(0))
    await asyncio.sleep(0)
    (failed,) = [task for task in asyncio.all_tasks() if task.get_name() == "numbers"]
    with pytest.raises(ValueError, match="broken"):
        await failed
    assert not first.done()
    numbers.error = None
    second = asyncio.create_task(numbers.wait_above(0))
    await settle()
    numbers.change(1)
    assert await first
    assert await second
    assert numbers.starts == 2
