"""Batching (group commit): concurrent calls are collected into one batch.

When idle, a call is flushed at once. While a batch is in flight, calls that arrive are collected into the next. So a
single request never waits, and a thousand share a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from crawlfleet.errors import InvariantBroken, Unavailable, UsageError

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class Batcher(Generic[ItemT, AnswerT]):
    def __init__(
        self,
        flush: Callable[[list[ItemT]], Awaitable[Sequence[AnswerT]]],
        *,
        max_weight: int,
        weigh: Callable[[ItemT], int] | None = None,
    ) -> None:
        """Create the batching over `flush`. A batch weighs at most `max_weight`, each item one unless `weigh` is given;
        a heavier call is flushed alone."""
        self._flush = flush
        self._max_weight = max_weight
        self._weigh = weigh
        self._calls: list[tuple[Sequence[ItemT], asyncio.Future[Sequence[AnswerT]]]] = []
        self._drainer: asyncio.Task[None] | None = None

    async def put_items(self, items: Sequence[ItemT]) -> Sequence[AnswerT]:
        """Add the items to the next batch; returns one answer per item, in order."""
        if not items:
            return []
        future: asyncio.Future[Sequence[AnswerT]] = asyncio.get_running_loop().create_future()
        self._calls.append((items, future))
        if self._drainer is None:
            self._drainer = asyncio.create_task(self._drain_calls(), name="gatherer")
        # Each caller has a future of its own: a caller that is cancelled does not cancel the batch of the others.
        return await future

    async def _drain_calls(self) -> None:
        try:
            while self._calls:
                await self._flush_calls(self._next_calls())
        finally:
            self._drainer = None

    def _next_calls(self) -> list[tuple[Sequence[ItemT], asyncio.Future[Sequence[AnswerT]]]]:
        size = 0
        for count, (items, _) in enumerate(self._calls):
            size += len(items) if self._weigh is None else sum(map(self._weigh, items))
            if count and size > self._max_weight:
                calls, self._calls = self._calls[:count], self._calls[count:]
                return calls
        calls, self._calls = self._calls, []
        return calls

    async def _flush_calls(self, calls: list[tuple[Sequence[ItemT], asyncio.Future[Sequence[AnswerT]]]]) -> None:
        try:
            answers = await self._flush([item for items, _ in calls for item in items])
        except (Unavailable, UsageError) as exc:
            _fail_calls(calls, exc)
        except Exception as exc:
            # Something in the batch could not be written: each call is flushed by itself, so that only the faulty one
            # fails.
            if len(calls) == 1:
                _fail_calls(calls, exc)
            else:
                for call in calls:
                    await self._flush_calls([call])
        except BaseException:
            _fail_calls(calls, InvariantBroken("stopped while gathering"))
            raise
        else:
            position = 0
            for items, future in calls:
                if not future.done():
                    future.set_result(answers[position : position + len(items)])
                position += len(items)


def _fail_calls(calls: Sequence[tuple[object, asyncio.Future[Sequence[AnswerT]]]], exc: BaseException) -> None:
    for _, future in calls:
        if not future.done():
            future.set_exception(exc)
            # The exception is retrieved here, as no caller may be left to do so: a cancelled caller is not an error.
            future.exception()
