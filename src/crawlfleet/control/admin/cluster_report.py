"""Reports about clusters: their health, how full they are, and which projects use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.model.node import Cluster, Node
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.ports.store import PlacementStore

HEALTHY_SHARE = 0.9
DEGRADED_SHARE = 0.5
_EXPECTED = (NodeStatus.ONLINE, NodeStatus.UNRESPONSIVE)
"""Statuses of nodes that should be working: not those that never joined, left cleanly or are held by a person."""


@dataclass(slots=True)
class Use:
    """Usage of a node, or of a project in a cluster."""

    running: int = 0
    reserved: dict[str, float] = field(default_factory=dict)

    def add_task(self, requirement: Requirement) -> None:
        self.running += 1
        for name, amount in requirement.resources:
            self.reserved[name] = self.reserved.get(name, 0.0) + amount


@dataclass(frozen=True, slots=True)
class ClusterReport:
    cluster: Cluster
    nodes: Sequence[Node]
    by_node: Mapping[int, Use]
    by_project: Mapping[str, Use]
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """Configuration that the cluster has of its own."""

    @property
    def health(self) -> Health:
        return cluster_health(self.nodes)

    @property
    def by_status(self) -> dict[NodeStatus, int]:
        counts = Counter(node.status for node in self.nodes)
        return {status: counts[status] for status in NodeStatus}

    @property
    def slots(self) -> int:
        """Total of the slots of usable nodes."""
        return sum(node.slots for node in self.nodes if is_usable(node))

    @property
    def running(self) -> int:
        return sum(use.running for use in self.by_node.values())


def is_usable(node: Node) -> bool:
    is_there = node.status is NodeStatus.ONLINE and node.is_session_open
    return is_there and node.health is not Health.UNHEALTHY


def cluster_health(nodes: Iterable[Node]) -> Health:
    """Return the health by the share of usable nodes among those that should be working; unknown where none should."""
    expected = [node for node in nodes if node.status in _EXPECTED]
    if not expected:
        return Health.UNKNOWN
    share = sum(map(is_usable, expected)) / len(expected)
    if share >= HEALTHY_SHARE:
        return Health.HEALTHY
    return Health.DEGRADED if share >= DEGRADED_SHARE else Health.UNHEALTHY


async def cluster_reports(store: PlacementStore, configure: Configure, only: str | None = None) -> list[ClusterReport]:
    """Return the reports by name; of one cluster when it is named. A cluster that only nodes name is included."""
    await configure.refresh()
    nodes = [
        configure.with_effective_slots(node)
        for node in await store.load_nodes()
        if only in (None, node.description.cluster)
    ]
    clusters = {cluster.name: cluster for cluster in await store.list_clusters() if only in (None, cluster.name)}
    for node in nodes:
        clusters.setdefault(node.description.cluster, Cluster(node.description.cluster))
    held = await store.held_tasks([node.id for node in nodes])
    lanes = {
        lane.id: lane for lane in await store.load_lanes(sorted({row.lane for rows in held.values() for row in rows}))
    }
    reports = []
    for name in sorted(clusters):
        members = sorted(
            (node for node in nodes if node.description.cluster == name),
            key=lambda node: (node.description.name, node.id),
        )
        by_node = {node.id: Use() for node in members}
        by_project: dict[str, Use] = {}
        for node in members:
            for row in held[node.id]:
                lane = lanes[row.lane]
                by_node[node.id].add_task(lane.requirement)
                by_project.setdefault(lane.project, Use()).add_task(lane.requirement)
        reports.append(ClusterReport(clusters[name], members, by_node, by_project, configure.cached_own_values(name)))
    return reports
