"""Many concurrent calls, one batch: when it goes, in what order, and who pays for a bad one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.support.batching import Batcher
from crawlfleet.errors import InvalidInput, OutcomeUnknown, StoreUnavailable


class Flush:
    """Doubles each item. Held back, it waits until it is let go; told to, it raises."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.in_flight = 0
        self.most_in_flight = 0
        self.raises: Callable[[list[int]], BaseException | None] = lambda _: None

    async def __call__(self, items: list[int]) -> Sequence[int]:
        self.batches.append(items)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.gate.wait()
        finally:
            self.in_flight -= 1
        if error := self.raises(items):
            raise error
        return [2 * item for item in items]


async def steps(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def busy(flush: Flush, gatherer: Batcher[int, int]) -> asyncio.Task[Sequence[int]]:
    """A first call that is in flight until the gate is opened."""
    flush.gate.clear()
    first = asyncio.create_task(gatherer.put_items([0]))
    await steps()
    assert flush.batches == [[0]]
    return first


async def test_a_lone_call_goes_at_once() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=10)
    assert await gatherer.put_items([1, 2, 3]) == [2, 4, 6]
    assert await gatherer.put_items([4]) == [8]
    assert flush.batches == [[1, 2, 3], [4]]


async def test_a_call_with_nothing_asks_nobody() -> None:
    flush = Flush()
    assert await Batcher(flush, max_weight=10).put_items([]) == []
    assert flush.batches == []


async def test_what_arrives_while_one_is_in_flight_goes_together_next() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=10)
    first = await busy(flush, gatherer)
    later = [asyncio.create_task(gatherer.put_items(items)) for items in ([1, 2], [3], [4, 5])]
    await steps()
    assert len(flush.batches) == 1
    flush.gate.set()
    assert await first == [0]
    assert [await call for call in later] == [[2, 4], [6], [8, 10]]
    assert flush.batches == [[0], [1, 2, 3, 4, 5]]


async def test_only_one_batch_is_in_flight() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=2)
    calls = [asyncio.create_task(gatherer.put_items([number])) for number in range(20)]
    await asyncio.gather(*calls)
    assert flush.most_in_flight == 1


async def test_a_batch_has_at_most_so_many_items_in_the_order_they_came() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=4)
    first = await busy(flush, gatherer)
    later = [asyncio.create_task(gatherer.put_items(items)) for items in ([1, 2], [3, 4], [5], [6, 7, 8])]
    await steps()
    flush.gate.set()
    await asyncio.gather(first, *later)
    assert flush.batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8]]


async def test_a_call_larger_than_a_batch_goes_whole_and_alone() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=4)
    first = await busy(flush, gatherer)
    later = [asyncio.create_task(gatherer.put_items(items)) for items in ([1], list(range(10, 20)), [2])]
    await steps()
    flush.gate.set()
    await asyncio.gather(first, *later)
    assert flush.batches == [[0], [1], list(range(10, 20)), [2]]


async def test_the_size_of_a_batch_is_what_its_items_weigh() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=10, weigh=lambda item: item)
    first = await busy(flush, gatherer)
    later = [asyncio.create_task(gatherer.put_items(items)) for items in ([3, 3], [4], [1], [50], [2])]
    await steps()
    flush.gate.set()
    await asyncio.gather(first, *later)
    assert flush.batches == [[0], [3, 3, 4], [1], [50], [2]]


async def test_one_bad_call_fails_alone() -> None:
    flush = Flush()
    flush.raises = lambda items: ValueError("13 is bad") if 13 in items else None
    gatherer = Batcher(flush, max_weight=100)
    first = await busy(flush, gatherer)
    calls = [asyncio.create_task(gatherer.put_items(items)) for items in ([1], [2, 13], [3], [4])]
    await steps()
    flush.gate.set()
    one, bad, *others = await asyncio.gather(*calls, return_exceptions=True)
    await first
    assert isinstance(bad, ValueError)
    assert [one, *others] == [[2], [6], [8]]
    assert flush.batches == [[0], [1, 2, 13, 3, 4], [1], [2, 13], [3], [4]]
    assert await gatherer.put_items([5]) == [10]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("who knows"), InvalidInput("no")])
async def test_a_store_that_is_away_is_told_to_all_and_not_asked_once_per_call(error: Exception) -> None:
    flush = Flush()
    flush.raises = lambda items: error if 1 in items else None
    gatherer = Batcher(flush, max_weight=100)
    first = await busy(flush, gatherer)
    calls = [asyncio.create_task(gatherer.put_items(items)) for items in ([1], [2], [3])]
    await steps()
    flush.gate.set()
    assert await asyncio.gather(*calls, return_exceptions=True) == [error] * 3
    assert await first == [0]
    assert flush.batches == [[0], [1, 2, 3]]
    assert await gatherer.put_items([7]) == [14]


async def test_a_caller_that_goes_away_does_not_take_its_neighbours_with_it() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=100)
    first = await busy(flush, gatherer)
    gone, stays = asyncio.create_task(gatherer.put_items([1])), asyncio.create_task(gatherer.put_items([2]))
    await steps()
    gone.cancel()
    first.cancel()
    await steps()
    flush.gate.set()
    assert await stays == [4]
    assert flush.batches == [[0], [1, 2]], "what was handed over is done, whoever still listens"
    for call in (gone, first):
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_an_error_that_nobody_is_left_to_hear_is_not_reported_as_lost() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    flush = Flush()
    flush.raises = lambda items: ValueError("bad") if 1 in items else None
    gatherer = Batcher(flush, max_weight=100)
    first = await busy(flush, gatherer)
    gone = asyncio.create_task(gatherer.put_items([1]))
    await steps()
    gone.cancel()
    await steps()
    flush.gate.set()
    await first
    await steps()
    del gone, first
    gc.collect()
    assert reported == []
    assert await gatherer.put_items([3]) == [6]


async def test_when_the_gatherer_is_stopped_its_callers_are_told() -> None:
    flush = Flush()
    gatherer = Batcher(flush, max_weight=100)
    first = await busy(flush, gatherer)
    assert gatherer._drainer is not None
    gatherer._drainer.cancel()
    with pytest.raises(Exception, match="stopped while gathering"):
        await first
    flush.gate.set()
    assert await gatherer.put_items([3]) == [6]


@given(
    calls=st.lists(st.lists(st.integers(0, 99), max_size=5), max_size=20),
    most=st.integers(1, 12),
    bad=st.integers(0, 99),
)
def test_every_caller_gets_its_own_answers_whatever_else_is_gathered(
    calls: list[list[int]], most: int, bad: int
) -> None:
    async def run() -> None:
        flush = Flush()
        flush.raises = lambda items: ValueError("bad") if bad in items else None
        gatherer = Batcher(flush, max_weight=most)
        answers = await asyncio.gather(*map(gatherer.put_items, calls), return_exceptions=True)
        for items, answer in zip(calls, answers, strict=True):
            if bad in items:
                assert isinstance(answer, ValueError)
            else:
                assert answer == [2 * item for item in items]
        # Tried together first, at most so many; then, if need be, each alone.
        for batch in flush.batches:
            assert len(batch) <= most or batch in calls

    asyncio.run(run())
