"""The newest measurement of each node, in memory."""

from __future__ import annotations

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Measurement


class MemoryNodeMeasurements:
    def __init__(self) -> None:
        self._newest: dict[NodeId, Measurement] = {}

    async def put_measurement(self, node: NodeId, measurement: Measurement) -> None:
        self._newest[node] = measurement

    async def load_measurements(self) -> dict[NodeId, Measurement]:
        return dict(self._newest)

    def forget_all(self) -> None:
        self._newest.clear()
