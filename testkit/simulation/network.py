"""The network between nodes and masters: calls that are slow, lost, late, doubled, or cut off in one direction."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

import msgspec

from crawlfleet.errors import Unavailable
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp

if TYPE_CHECKING:
    from testkit.simulation.world import SimMaster, SimNode

UpT = TypeVar("UpT", OpenUp, SyncUp)
DownT = TypeVar("DownT", OpenDown, SyncDown)


FAIR_S = 0.002


@dataclass(slots=True)
class Weather:
    """The current condition of the network."""

    lost: float = 0.0
    """Probability that a message is lost."""
    doubled: float = 0.0
    """Probability that a request arrives twice."""
    slow_s: float = FAIR_S
    """Average time of a message on its way."""
    cut_up: set[tuple[str, int]] = field(default_factory=set)
    """Pairs (node, master) between which requests do not arrive."""
    cut_down: set[tuple[str, int]] = field(default_factory=set)
    """Pairs (node, master) between which answers do not arrive."""


class SimTransport:
    """The connection of one node to one master."""

    def __init__(self, node: SimNode, master: SimMaster, weather: Weather, rng: Random) -> None:
        self._node = node
        self._master = master
        self._weather = weather
        self._rng = rng
        self._link = (node.name, master.number)

    async def open(self, up: OpenUp) -> OpenDown:
        return await self._call(up, OpenUp, OpenDown)

    async def sync(self, up: SyncUp) -> SyncDown:
        return await self._call(up, SyncUp, SyncDown)

    async def _call(self, up: UpT, up_type: type[UpT], down_type: type[DownT]) -> DownT:
        request = msgspec.json.encode(up)
        await self._travel(self._link in self._weather.cut_up)
        if self._rng.random() < self._weather.doubled and self._node.process is not None:
            self._node.process.spawn(self._again(request, up_type), name="doubled")
        answer = await self._served(request, up_type)
        await self._travel(self._link in self._weather.cut_down)
        return msgspec.json.decode(answer, type=down_type)

    async def _served(self, request: bytes, up_type: type[OpenUp] | type[SyncUp]) -> bytes:
        process, master = self._master.process, self._master.master
        if process is None or master is None or not process.is_alive:
            raise Unavailable("connection refused")
        up = msgspec.json.decode(request, type=up_type)
        try:
            if isinstance(up, OpenUp):
                return msgspec.json.encode(await process.call(master.open_session.open_session, up))
            return msgspec.json.encode(await process.call(master.sync.sync, up))
        except ConnectionResetError as exc:
            raise Unavailable("connection reset") from exc

    async def _again(self, request: bytes, up_type: type[OpenUp] | type[SyncUp]) -> None:
        """Send the same request once more, late; no caller waits for its answer."""
        await asyncio.sleep(self._rng.uniform(0.0, 8.0))
        try:
            await self._served(request, up_type)
        except Exception as exc:
            self._node.world.note_ignored(exc)

    async def _travel(self, is_cut: bool) -> None:
        # In a fair network most messages take no time at all: each timer costs the simulation.
        if self._weather.slow_s > FAIR_S or self._rng.random() < 0.35:
            await asyncio.sleep(self._weather.slow_s * self._rng.uniform(0.2, 1.8))
        if is_cut or self._rng.random() < self._weather.lost:
            # Nothing comes back for a lost message: the caller's own timeout ends the call.
            await asyncio.get_running_loop().create_future()
