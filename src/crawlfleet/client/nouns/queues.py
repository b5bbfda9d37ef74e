"""Calls for queues: pause, resume, and set their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from crawlfleet.client._generated.models import (
    QueueOrder,
    QueueSizesView,
    QueueState,
    QueueStates,
    QueuesView,
    QueueView,
)
from crawlfleet.client.nouns.base import Calls, quote_segment


class QueueCalls(Calls):
    async def queues(self) -> Sequence[QueueView]:
        return (await self._transport.get(QueuesView, "/queues")).queues

    async def queue_sizes(self) -> QueueSizesView:
        """How many tasks wait in each priority class, and how many wait for a retry."""
        return await self._transport.get(QueueSizesView, "/queues:sizes")

    async def pause(self, queue: str) -> QueueState:
        """Its tasks are kept and not placed; what runs goes on."""
        return await self._transport.change(
            QueueState, "POST", f"/queues/{quote_segment(queue)}:pause", is_repeatable=True
        )

    async def resume(self, queue: str) -> QueueState:
        return await self._transport.change(
            QueueState, "POST", f"/queues/{quote_segment(queue)}:resume", is_repeatable=True
        )

    async def pause_many(self, queues: Sequence[str]) -> Sequence[QueueState]:
        body = {"names": list(queues)}
        return (await self._transport.change(QueueStates, "POST", "/queues:pause", body, is_repeatable=True)).queues

    async def resume_many(self, queues: Sequence[str]) -> Sequence[QueueState]:
        body = {"names": list(queues)}
        return (await self._transport.change(QueueStates, "POST", "/queues:resume", body, is_repeatable=True)).queues

    async def set_order(self, queue: str, order: Literal["fifo", "lifo"]) -> QueueOrder:
        """Which of its tasks are placed first: those that came first, or those that came last."""
        body = {"order": order}
        return await self._transport.change(
            QueueOrder, "PUT", f"/queues/{quote_segment(queue)}", body, is_repeatable=True
        )
