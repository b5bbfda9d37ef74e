"""Clusters: create, change, configure and remove them. The leader reads them again after each change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.cluster_report import ClusterReport, cluster_reports
from crawlfleet.errors import Conflict
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster
from crawlfleet.model.principal import Principal
from crawlfleet.ports.admin_store import ClusterConfig
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import PlacementStore


class Clusters:
    def __init__(self, *, store: PlacementStore, broker: Broker, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._configure = configure

    async def list_reports(self, only: str | None = None) -> list[ClusterReport]:
        """Return the reports by name; of one cluster when it is named."""
        return await cluster_reports(self._store, self._configure, only)

    async def change_cluster(self, name: str, change: Callable[[Cluster], Cluster]) -> None:
        """Change a cluster. `change` receives the cluster as it is, or one without settings if there is none of the
        name."""
        clusters = {cluster.name: cluster for cluster in await self._store.list_clusters()}
        await self._store.put_cluster(change(clusters.get(name, Cluster(name))), self._clock.now())
        await self._wake_leader()

    async def remove_cluster(self, name: str) -> None:
        """Remove the cluster with its configuration. Raises Conflict while a node is in it or an open task names it."""
        if name == DEFAULT_CLUSTER:
            raise Conflict(f"cluster {DEFAULT_CLUSTER} is always there")
        await self._store.drop_cluster(name, self._clock.now())
        await self._wake_leader()

    async def configure_cluster(
        self, name: str, values: Mapping[str, Any], by: Principal, expected_version: int | None
    ) -> ClusterConfig:
        """Set the next version of the cluster's configuration."""
        config = await self._configure.put_config(name, values, by, expected_version)
        await self._wake_leader()
        return config

    async def _wake_leader(self) -> None:
        await self._broker.signals.send_signals([LOOK, LEADER])
