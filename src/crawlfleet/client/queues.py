"""Queues: paused and resumed."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client.calls import Calls, part
from crawlfleet.client.models import QueueState, QueuesView, QueueView


class QueueCalls(Calls):
    async def queues(self) -> Sequence[QueueView]:
        return (await self._transport.get(QueuesView, "/queues")).queues

    async def pause(self, queue: str) -> QueueState:
        """Its tasks are kept and not placed; what runs goes on."""
        return await self._transport.change(QueueState, "POST", f"/queues/{part(queue)}:pause", is_repeatable=True)

    async def resume(self, queue: str) -> QueueState:
        return await self._transport.change(QueueState, "POST", f"/queues/{part(queue)}:resume", is_repeatable=True)
