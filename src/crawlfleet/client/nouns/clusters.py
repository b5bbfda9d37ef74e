"""Calls for clusters, and their configuration at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crawlfleet.client._generated.models import (
    ClusterList,
    ClusterView,
    ConfigHistory,
    ConfigView,
    FullConfigView,
    UsageView,
)
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.types import Fields


class ClusterCalls(Calls):
    async def clusters(self) -> Sequence[ClusterView]:
        return (await self._transport.get(ClusterList, "/clusters")).clusters

    async def cluster(self, name: str = "default") -> ClusterView:
        return await self._transport.get(ClusterView, f"/clusters/{quote_segment(name)}")

    async def put_cluster(self, name: str, **fields: Any) -> ClusterView:
        """Make it, or change its status, description or project."""
        return await self._transport.change(
            ClusterView, "PUT", f"/clusters/{quote_segment(name)}", fields, is_repeatable=True
        )

    async def remove_cluster(self, name: str) -> None:
        """Remove it with its configuration; refused while a node is in it or an open task names it."""
        return await self._transport.change(
            type(None), "DELETE", f"/clusters/{quote_segment(name)}", is_repeatable=True
        )

    async def usage(self, name: str = "default") -> UsageView:
        return await self._transport.get(UsageView, f"/clusters/{quote_segment(name)}/usage")

    async def config(self, cluster: str = "default") -> FullConfigView:
        return await self._transport.get(FullConfigView, f"/clusters/{quote_segment(cluster)}/config")

    async def put_config(
        self, values: Fields, cluster: str = "default", *, expected_version: int | None = None
    ) -> FullConfigView:
        """All values the cluster has of its own; with `expected_version` refused when another change was quicker."""
        body = {"values": values, "expected_version": expected_version}
        return await self._transport.change(FullConfigView, "PUT", f"/clusters/{quote_segment(cluster)}/config", body)

    async def config_history(self, cluster: str = "default") -> Sequence[ConfigView]:
        return (await self._transport.get(ConfigHistory, f"/clusters/{quote_segment(cluster)}/config/history")).versions
