"""The feed of slots that became free on any master, kept in Redis until the leader reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crawlfleet.broker.memory.freed_slots import MemoryFreedFeed
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.broker.redis.id_packing import pack, unpack
from crawlfleet.model.ids import ExecutionId, NodeId

_AT_ONCE = 5_000
"""Largest number of pairs in one call: Lua passes fewer than 8,000 arguments at once, and no answer should take long.
"""

Freed = tuple[NodeId, ExecutionId]


class RedisFreedFeed:
    def __init__(self, link: Link, local: MemoryFreedFeed, kept: int) -> None:
        self._link = link
        self._local = local
        self._key = link.key("freed")
        self._kept = kept

    async def post(self, freed: Sequence[Freed]) -> None:
        try:
            for packed in _packed(freed):
                await self._link.run(scripts.POST_FREED, self._key, self._kept, KEPT_S, packed)
        except Away:
            await self._local.post(freed)

    async def take_all(self) -> list[Freed]:
        taken: list[Freed] = []
        try:
            while len(taken) < self._kept:
                numbers = unpack(await self._link.run(scripts.TAKE_FREED, self._key, _AT_ONCE))
                taken += zip(numbers[::2], numbers[1::2], strict=True)
                if len(numbers) < 2 * _AT_ONCE:
                    break
        except Away:
            taken += await self._local.take_all()
        return taken

    async def pass_on(self) -> None:
        """Post the slots that were freed here while Redis was away: they are for a leader that may be on another
        master."""
        for packed in _packed(await self._local.take_all()):
            self._link.send(scripts.POST_FREED, self._key, self._kept, KEPT_S, packed)


def _packed(freed: Sequence[Freed]) -> Iterator[str]:
    for first in range(0, len(freed), _AT_ONCE):
        yield pack([number for pair in freed[first : first + _AT_ONCE] for number in pair])
