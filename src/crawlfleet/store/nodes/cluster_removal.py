"""Removal of clusters, which is refused while a node is in the cluster or an open task names it."""

from __future__ import annotations

from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.store import row_codec
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.transaction_log import write_events

LOCK_CLUSTER = "SELECT name FROM cluster WHERE name = $1 LOCK_ROWS(cluster)"


class ClusterRemovalTables:
    _engine: Engine
    _lanes: LaneBook

    async def drop_cluster(self, name: str, now: Instant) -> None:
        # Checked outside of the writer: with many open tasks this takes a while, and it is rarely needed.
        await self._engine.read(lambda tx: self._refuse_named(tx, name))

        async def delete_cluster(tx: Tx) -> None:
            if not await tx.fetch(LOCK_CLUSTER, name):
                raise NotFound(f"no cluster {name!r}")
            rows = await tx.fetch("SELECT description FROM node WHERE removed_at IS NULL")
            count = sum(row_codec.decode_description(row[0]).cluster == name for row in rows)
            if count:
                raise Conflict(f"{count} nodes are in cluster {name}: remove them, or let them join another, first")
            await tx.execute("DELETE FROM cluster_config WHERE cluster = $1", name)
            await tx.execute("DELETE FROM cluster WHERE name = $1", name)
            shared = {"cluster": name, "status": "removed", "project": None}
            await write_events(tx, [EventBatch(Kind.CLUSTER_CHANGED, shared=shared)], now)

        await self._engine.write(delete_cluster)

    async def _refuse_named(self, tx: Tx, name: str) -> None:
        lanes = [row[0] for row in await tx.fetch("SELECT DISTINCT lane FROM live")]
        await self._lanes.load_lanes(tx, lanes)
        if any(self._lanes[lane].requirement.cluster == name for lane in lanes):
            raise Conflict(f"open tasks name cluster {name}: let them end, or cancel them, first")
