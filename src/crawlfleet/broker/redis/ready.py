"""The ready index shared by all masters: windows over lanes of ready tasks. `broker/memory/ready.py` has the rules.

Each method is one script and one round trip, whatever the number of lanes in it. While Redis is away, the local index
is used; it starts empty at every change: the leader sees another generation then, and fills it from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.broker.memory.ready import TAKEN_MEMORY_S, MemoryReadyIndex
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.broker.redis.id_packing import pack_ids, unpack_id, unpack_ids
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.broker import Window

_ROW = 5
"""Number of values that describe one lane in an answer."""


class RedisReadyIndex:
    def __init__(
        self, link: Link, local: MemoryReadyIndex, *, window: int, total: int, taken_kept_s: float = TAKEN_MEMORY_S
    ) -> None:
        self._link = link
        self._local = local
        self._key = link.scoped_key("ready")
        self._bounds = (window, total, KEPT_S, taken_kept_s)

    async def offer_tasks(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        arguments = [word for lane, tasks in ready.items() if tasks for word in (lane, pack_ids(sorted(set(tasks))))]
        if not arguments:
            return
        try:
            await self._link.call_script(scripts.OFFER, self._key, *self._bounds, *arguments)
        except Away:
            await self._local.offer_tasks(ready)

    async def list_windows(self) -> list[Window]:
        try:
            return _parse_windows(await self._link.call_script(scripts.WINDOWS, self._key))
        except Away:
            return await self._local.list_windows()

    async def pop_changed_windows(self) -> list[Window]:
        try:
            return _parse_windows(await self._link.call_script(scripts.CHANGED, self._key))
        except Away:
            return await self._local.pop_changed_windows()

    async def pop_tasks(self, counts: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        if not counts:
            return {}
        arguments = [word for lane_count in counts.items() for word in lane_count]
        try:
            popped = await self._link.call_script(scripts.TAKE, self._key, *self._bounds, *arguments)
        except Away:
            return await self._local.pop_tasks(counts)
        return {int(lane): list(unpack_ids(packed)) for lane, packed in zip(popped[::2], popped[1::2], strict=True)}

    async def refill_window(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        packed = pack_ids(sorted(heads))
        try:
            await self._link.call_script(scripts.REFILL, self._key, *self._bounds, lane, int(is_deep), packed)
        except Away:
            await self._local.refill_window(lane, heads, is_deep)

    async def discard_tasks(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        by_lane: dict[LaneId, list[TaskId]] = {}
        for lane, task in tasks:
            by_lane.setdefault(lane, []).append(task)
        if not by_lane:
            return
        arguments = [word for lane, ids in by_lane.items() for word in (lane, pack_ids(ids))]
        try:
            await self._link.call_script(scripts.DISCARD, self._key, *self._bounds, *arguments)
        except Away:
            await self._local.discard_tasks(tasks)

    async def drop_windows(self, lanes: Sequence[LaneId]) -> None:
        if not lanes:
            return
        try:
            await self._link.call_script(scripts.DROP, self._key, *self._bounds, *lanes)
        except Away:
            await self._local.drop_windows(lanes)

    async def clear(self) -> None:
        try:
            await self._link.call_script(scripts.CLEAR, self._key, *self._bounds)
        except Away:
            await self._local.clear()


def _parse_windows(answer: bytes) -> list[Window]:
    rows = answer.split()
    lanes, deeps, heads, _, sizes = (rows[word::_ROW] for word in range(_ROW))
    return [
        Window(int(lane), unpack_id(head), int(size), deep == b"1")
        for lane, deep, head, size in zip(lanes, deeps, heads, sizes, strict=True)
    ]
