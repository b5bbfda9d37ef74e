"""The newest measurement of each node, in memory."""

from __future__ import annotations

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Measurement


class MemoryLiveBoard:
    def __init__(self) -> None:
        self._newest: dict[NodeId, Measurement] = {}

    async def put(self, node: NodeId, measurement: Measurement) -> None:
        self._newest[node] = measurement

    async def all(self) -> dict[NodeId, Measurement]:
        return dict(self._newest)

    def forget(self) -> None:
        self._newest.clear()
