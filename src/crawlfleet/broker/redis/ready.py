"""The ready index shared by all masters: windows over lanes of ready tasks. `broker/memory/ready.py` has the rules.

Each method is one script and one round trip, whatever the number of lanes in it. While Redis is away, the local index
is used; it starts empty at every change: the leader sees another generation then, and fills it from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.broker.memory.ready import TAKEN_KEPT_S, MemoryReadyIndex
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.broker.redis.id_packing import pack, unhex, unpack
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.broker import Window

_ROW = 5
"""Number of values that describe one lane in an answer."""


class RedisReadyIndex:
    def __init__(
        self, link: Link, local: MemoryReadyIndex, *, window: int, total: int, taken_kept_s: float = TAKEN_KEPT_S
    ) -> None:
        self._link = link
        self._local = local
        self._key = link.key("ready")
        self._bounds = (window, total, KEPT_S, taken_kept_s)

    async def offer(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        said = [word for lane, tasks in ready.items() if tasks for word in (lane, pack(sorted(set(tasks))))]
        if not said:
            return
        try:
            await self._link.run(scripts.OFFER, self._key, *self._bounds, *said)
        except Away:
            await self._local.offer(ready)

    async def windows(self) -> list[Window]:
        try:
            return _windows(await self._link.run(scripts.WINDOWS, self._key))
        except Away:
            return await self._local.windows()

    async def changed(self) -> list[Window]:
        try:
            return _windows(await self._link.run(scripts.CHANGED, self._key))
        except Away:
            return await self._local.changed()

    async def take(self, wants: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        if not wants:
            return {}
        asked = [word for want in wants.items() for word in want]
        try:
            taken = await self._link.run(scripts.TAKE, self._key, *self._bounds, *asked)
        except Away:
            return await self._local.take(wants)
        return {int(lane): list(unpack(packed)) for lane, packed in zip(taken[::2], taken[1::2], strict=True)}

    async def refill(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        packed = pack(sorted(heads))
        try:
            await self._link.run(scripts.REFILL, self._key, *self._bounds, lane, int(is_deep), packed)
        except Away:
            await self._local.refill(lane, heads, is_deep)

    async def discard(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        by_lane: dict[LaneId, list[TaskId]] = {}
        for lane, task in tasks:
            by_lane.setdefault(lane, []).append(task)
        if not by_lane:
            return
        said = [word for lane, ids in by_lane.items() for word in (lane, pack(ids))]
        try:
            await self._link.run(scripts.DISCARD, self._key, *self._bounds, *said)
        except Away:
            await self._local.discard(tasks)

    async def drop(self, lanes: Sequence[LaneId]) -> None:
        if not lanes:
            return
        try:
            await self._link.run(scripts.DROP, self._key, *self._bounds, *lanes)
        except Away:
            await self._local.drop(lanes)

    async def clear(self) -> None:
        try:
            await self._link.run(scripts.CLEAR, self._key, *self._bounds)
        except Away:
            await self._local.clear()


def _windows(said: bytes) -> list[Window]:
    rows = said.split()
    lanes, deeps, heads, _, sizes = (rows[word::_ROW] for word in range(_ROW))
    return [
        Window(int(lane), unhex(head), int(size), deep == b"1")
        for lane, deep, head, size in zip(lanes, deeps, heads, sizes, strict=True)
    ]
