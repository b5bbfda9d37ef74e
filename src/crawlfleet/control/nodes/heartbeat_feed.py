"""Feeds live heartbeats of nodes to event streams that ask for them; heartbeats are stored nowhere.

Nodes may sync with any master, so heartbeats are found by their lease counters in the store. One read a second serves
all streams of a master, and without such a stream nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.model.event import Event, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Node
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore

READ_S = 1.0
UNNUMBERED = 0
"""The number of an event that is not in the log."""

SeenRenewals = dict[NodeId, tuple[int, int]]
"""Session and count of renewals that a stream has sent last, by node."""


class HeartbeatFeed:
    def __init__(self, *, store: NodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._nodes: Sequence[Node] = ()
        self._read_at: float | None = None
        self._refresh_nodes = SingleFlight(self._read_nodes, "heartbeats")

    async def newer_heartbeats(self, seen: SeenRenewals | None) -> tuple[list[Event], SeenRenewals]:
        """The newest heartbeat of each node that renewed since `seen`, and the new `seen`; none at the first call."""
        if self._read_at is None or self._clock.monotonic() - self._read_at >= READ_S:
            await self._refresh_nodes()
        nodes = [node for node in self._nodes if node.is_session_open and node.renewed_at is not None]
        now_seen = {node.id: (node.session, node.renewals) for node in nodes}
        if seen is None:
            return [], now_seen
        return [_heartbeat_event(node) for node in nodes if seen.get(node.id) != now_seen[node.id]], now_seen

    async def _read_nodes(self) -> None:
        now_mono = self._clock.monotonic()
        self._nodes = await self._store.load_nodes()
        self._read_at = now_mono


def _heartbeat_event(node: Node) -> Event:
    measured = node.measurement
    data: dict[str, object] = {"node": node.id, "status": node.status.word, "health": node.health.word}
    if measured is not None:
        data |= {
            "cpu": measured.cpu,
            "memory": measured.memory,
            "disk": measured.disk,
            "load": measured.load,
            "network_in_bps": measured.network_in_bps,
            "network_out_bps": measured.network_out_bps,
            "gpu": measured.gpu,
            "running": measured.running,
            "error_rate": measured.error_rate,
            "start_latency_s": measured.start_latency_s,
        }
    return Event(UNNUMBERED, node.renewed_at or 0, Kind.NODE_HEARTBEAT, data)
