"""The newest measurement of each node, whichever master it syncs with.

Nodes report often and people look seldom: measurements are batched for a fraction of a second, and cost a sync no
round trip.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from crawlfleet.broker.memory.node_measurements import MemoryNodeMeasurements
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import KEPT_S, Away, Link
from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Measurement

BATCH_S = 0.2
FRESH_S = 300.0
_MAX_PER_CALL = 2_000
"""Largest number of nodes in one script call: Lua passes fewer than 8,000 arguments at once."""


class _ReceivedMeasurement(msgspec.Struct, array_like=True):
    at: float
    """Unix seconds by the clock of the master that received the measurement; compared in minutes only."""
    measurement: Measurement


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_ReceivedMeasurement).decode


class RedisNodeMeasurements:
    def __init__(
        self, link: Link, local: MemoryNodeMeasurements, max_nodes: int, wall: Callable[[], float] = time.time
    ) -> None:
        self._link = link
        self._local = local
        self._key = link.scoped_key("board")
        self._max_nodes = max_nodes
        self._wall = wall
        self._unsent: dict[NodeId, Measurement] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def put_measurement(self, node: NodeId, measurement: Measurement) -> None:
        if not self._link.state.is_up:
            await self._local.put_measurement(node, measurement)
            return
        self._unsent[node] = measurement
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_S, self._send_measurements)

    async def load_measurements(self) -> dict[NodeId, Measurement]:
        self._send_measurements()
        try:
            answer = await self._link.call_command("HGETALL", self._key)
        except Away:
            return await self._local.load_measurements()
        fresh: dict[NodeId, Measurement] = {}
        stale = []
        for node, value in zip(answer[::2], answer[1::2], strict=True):
            received = _decode_or_none(value)
            if received is not None and self._wall() - received.at <= FRESH_S:
                fresh[int(node)] = received.measurement
            else:
                stale.append(node)
        if stale:
            self._link.send_command("HDEL", self._key, *stale)
        return fresh

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_measurements(self) -> None:
        self.close()
        now = self._wall()
        unsent, self._unsent = list(self._unsent.items()), {}
        for first in range(0, len(unsent), _MAX_PER_CALL):
            arguments: list[bytes | int] = []
            for node, measurement in unsent[first : first + _MAX_PER_CALL]:
                arguments += (node, _encode(_ReceivedMeasurement(now, measurement)))
            self._link.send_script(scripts.PUT_ON_BOARD, self._key, self._max_nodes, KEPT_S, *arguments)


def _decode_or_none(value: bytes) -> _ReceivedMeasurement | None:
    """Decode a measurement; None for one that another version of crawlfleet wrote and this one cannot read."""
    try:
        return _decode(value)
    except msgspec.DecodeError:
        return None
