"""The feed of slots that became free on any master, kept in Redis until the leader reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crawlfleet.broker.memory.freed_slots import MemoryFreedSlotFeed
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.broker.redis.id_packing import pack_ids, unpack_ids
from crawlfleet.model.ids import ExecutionId, NodeId

_MAX_PAIRS = 5_000
"""Largest number of pairs in one call: Lua passes fewer than 8,000 arguments at once, and no answer should take long.
"""

Freed = tuple[NodeId, ExecutionId]


class RedisFreedSlotFeed:
    def __init__(self, link: Link, local: MemoryFreedSlotFeed, max_slots: int) -> None:
        self._link = link
        self._local = local
        self._key = link.scoped_key("freed")
        self._max_slots = max_slots

    async def post_slots(self, freed: Sequence[Freed]) -> None:
        try:
            for packed in _pack_slots(freed):
                await self._link.call_script(scripts.POST_FREED, self._key, self._max_slots, KEPT_S, packed)
        except Away:
            await self._local.post_slots(freed)

    async def pop_slots(self) -> list[Freed]:
        popped: list[Freed] = []
        try:
            while len(popped) < self._max_slots:
                numbers = unpack_ids(await self._link.call_script(scripts.TAKE_FREED, self._key, _MAX_PAIRS))
                popped += zip(numbers[::2], numbers[1::2], strict=True)
                if len(numbers) < 2 * _MAX_PAIRS:
                    break
        except Away:
            popped += await self._local.pop_slots()
        return popped

    async def post_local_slots(self) -> None:
        """Post the slots that were freed here while Redis was away: they are for a leader that may be on another
        master."""
        for packed in _pack_slots(await self._local.pop_slots()):
            self._link.send_script(scripts.POST_FREED, self._key, self._max_slots, KEPT_S, packed)


def _pack_slots(freed: Sequence[Freed]) -> Iterator[str]:
    for first in range(0, len(freed), _MAX_PAIRS):
        yield pack_ids([number for pair in freed[first : first + _MAX_PAIRS] for number in pair])
