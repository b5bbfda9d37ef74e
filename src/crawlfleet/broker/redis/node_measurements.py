"""The newest measurement of each node, whichever master it syncs with.

Nodes report often and people look seldom: measurements are batched for a fraction of a second, and cost a sync no
round trip.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from crawlfleet.broker.memory.node_measurements import MemoryLiveBoard
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Measurement

GATHER_S = 0.2
FRESH_S = 300.0
_AT_ONCE = 2_000
"""Largest number of nodes in one script call: Lua passes fewer than 8,000 arguments at once."""


class _Seen(msgspec.Struct, array_like=True):
    at: float
    """Unix seconds by the clock of the master that received the measurement; compared in minutes only."""
    measurement: Measurement


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Seen).decode


class RedisLiveBoard:
    def __init__(self, link: Link, local: MemoryLiveBoard, nodes: int, wall: Callable[[], float] = time.time) -> None:
        self._link = link
        self._local = local
        self._key = link.key("board")
        self._nodes = nodes
        self._wall = wall
        self._gathered: dict[NodeId, Measurement] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def put(self, node: NodeId, measurement: Measurement) -> None:
        if not self._link.state.is_up:
            await self._local.put(node, measurement)
            return
        self._gathered[node] = measurement
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self._send)

    async def all(self) -> dict[NodeId, Measurement]:
        self._send()
        try:
            told = await self._link.ask("HGETALL", self._key)
        except Away:
            return await self._local.all()
        board: dict[NodeId, Measurement] = {}
        stale = []
        for node, value in zip(told[::2], told[1::2], strict=True):
            seen = _decoded(value)
            if seen is not None and self._wall() - seen.at <= FRESH_S:
                board[int(node)] = seen.measurement
            else:
                stale.append(node)
        if stale:
            self._link.tell("HDEL", self._key, *stale)
        return board

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        self.close()
        now = self._wall()
        gathered, self._gathered = list(self._gathered.items()), {}
        for first in range(0, len(gathered), _AT_ONCE):
            said: list[bytes | int] = []
            for node, measurement in gathered[first : first + _AT_ONCE]:
                said += (node, _encode(_Seen(now, measurement)))
            self._link.send(scripts.PUT_ON_BOARD, self._key, self._nodes, KEPT_S, *said)


def _decoded(value: bytes) -> _Seen | None:
    """Decode a measurement; None for one that another version of crawlfleet wrote and this one cannot read."""
    try:
        return _decode(value)
    except msgspec.DecodeError:
        return None
