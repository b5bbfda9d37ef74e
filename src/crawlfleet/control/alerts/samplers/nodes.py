"""Measures nodes: those that stopped answering, clusters without any that answers, full disks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.control.alerts.alert_sampling import SampleRequest
from crawlfleet.model.alerts.alert import AlertSample
from crawlfleet.model.ids import node_text
from crawlfleet.model.installation.master import DiskFigures
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.node import Cluster, Node
from crawlfleet.model.status import ClusterStatus, NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.scheduling.alerts.evaluation import Measurements

FRESH_S = 0.5
"""Span for which the rules of one pass share what was read."""
LEAST_FREE_BYTES = 5 << 30
"""Free bytes of a master's disk that count as little as the default threshold of free space."""
LEAST_FREE_PART = 0.10
_EXPECTED = (NodeStatus.ONLINE, NodeStatus.UNRESPONSIVE)


class NodeSampleStore(NodeStore, LeadershipStore, Protocol):
    """The part of the store for measuring nodes and disks."""


class NodeSampler:
    kinds = ("node_down", "cluster_down", "disk_low")
    every_s = 0.0

    def __init__(self, *, store: NodeSampleStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._nodes: Sequence[Node] = ()
        self._clusters: dict[str, Cluster] = {}
        self._read_at: float | None = None

    async def measure(self, request: SampleRequest) -> Measurements:
        await self._refresh()
        match request.rule.kind:
            case "node_down":
                samples = [self._node_sample(node) for node in self._nodes]
            case "cluster_down":
                samples = self._cluster_samples()
            case _:
                samples = [*await self._master_disks(request.now), *self._node_disks()]
        return Measurements({sample.scope: sample for sample in samples})

    async def _refresh(self) -> None:
        now_mono = self._clock.monotonic()
        if self._read_at is None or now_mono - self._read_at >= FRESH_S:
            self._nodes = [node for node in await self._store.load_nodes() if node.removed_at is None]
            self._clusters = {cluster.name: cluster for cluster in await self._store.list_clusters()}
            self._read_at = now_mono

    def _node_sample(self, node: Node) -> AlertSample:
        cluster = node.description.cluster
        is_down = node.status is NodeStatus.UNRESPONSIVE
        if not is_down:
            return AlertSample(f"node:{node_text(node.id)}", 0.0, parent=f"cluster:{cluster}")
        mute = "the node is being drained" if node.drain_by is not None or node.is_departing else ""
        return AlertSample(
            f"node:{node_text(node.id)}",
            1.0,
            why=f"Node {node.description.name} has not answered since {_instant(node.renewed_at)}.",
            parent=f"cluster:{cluster}",
            mute=mute or self._cluster_mute(cluster),
        )

    def _cluster_samples(self) -> list[AlertSample]:
        members: dict[str, list[Node]] = {}
        for node in self._nodes:
            if node.status in _EXPECTED:
                members.setdefault(node.description.cluster, []).append(node)
        samples = []
        for name in sorted({*self._clusters, *members}):
            nodes = members.get(name, ())
            is_down = bool(nodes) and not any(node.status is NodeStatus.ONLINE for node in nodes)
            why = f"None of the {len(nodes)} nodes of cluster {name} answers." if is_down else ""
            mute = self._cluster_mute(name) if is_down else ""
            samples.append(AlertSample(f"cluster:{name}", float(is_down), why=why, mute=mute))
        return samples

    def _cluster_mute(self, name: str) -> str:
        cluster = self._clusters.get(name)
        if cluster is None or cluster.status is ClusterStatus.ACTIVE:
            return ""
        return f"cluster {name} is in {cluster.status.word}"

    async def _master_disks(self, now: Instant) -> list[AlertSample]:
        return [
            disk_sample(f"{master.identity.name}:{use}", disk)
            for master in await self._store.list_masters(now)
            if master.is_alive
            for use, disk in master.figures.disks.items()
        ]

    def _node_disks(self) -> list[AlertSample]:
        return [
            AlertSample(
                f"disk:{node_text(node.id)}",
                1.0 - node.measurement.disk,
                why=f"Node {node.description.name} has {1 - node.measurement.disk:.0%} of its disk free.",
            )
            for node in self._nodes
            if node.measurement is not None and node.status is NodeStatus.ONLINE
        ]


def disk_sample(name: str, disk: DiskFigures) -> AlertSample:
    """Return the sample of a master's disk: 5 GiB count as the default threshold, however large the disk is."""
    part = disk.free_bytes / max(1, disk.total_bytes)
    value = min(part, LEAST_FREE_PART * disk.free_bytes / LEAST_FREE_BYTES)
    why = f"{disk.free_bytes / (1 << 30):.1f} GiB ({part:.0%}) of the disk of {disk.path} are free."
    return AlertSample(f"disk:{name}", value, why=why)


def _instant(instant: Instant | None) -> str:
    return "it joined" if instant is None else to_text(instant)
