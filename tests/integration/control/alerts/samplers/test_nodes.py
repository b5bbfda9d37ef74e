"""Alerts about nodes, clusters and disks, by their real causes."""

from __future__ import annotations

import pytest

from crawlfleet.control.alerts.samplers.nodes import disk_sample
from crawlfleet.model.ids import node_text
from crawlfleet.model.installation.master import DiskFigures, MasterFigures, MasterIdentity
from crawlfleet.model.node import Cluster
from crawlfleet.model.notice import NoticeState
from crawlfleet.model.status import ClusterStatus
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import MeasurementBody
from tests.integration.control.alerts.alerts_kit import AlertFleet
from tests.integration.faults.faults_kit import PlayedNode

pytestmark = pytest.mark.integration
GIB = 1 << 30


async def lose_nodes(fleet: AlertFleet, alive: list[PlayedNode]) -> None:
    """Time in which only these nodes sync: the reaper ends the sessions of all others."""
    for _ in range(6):
        fleet.clock.advance(3.1)
        for node in alive:
            await node.sync()
        await fleet.master.reaper.run_once(fleet.clock.now())


async def keep_up(fleet: AlertFleet, alive: list[PlayedNode], seconds: int) -> None:
    for _ in range(seconds // 2):
        for node in alive:
            await node.sync()
        await fleet.watch(2, 2)


async def test_a_lost_node_is_told_after_half_a_minute_and_its_return_too(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    lost, alive = await fleet.node(), await fleet.node()
    scope = f"node:{node_text(lost.id)}"
    await fleet.watch(4)
    await lose_nodes(fleet, [alive])
    await keep_up(fleet, [alive], 28)
    assert await fleet.alert_status("node_down", scope) == "pending"
    await keep_up(fleet, [alive], 14)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.state, notice.scope) == ("node_down", NoticeState.FIRING, scope)
    assert "node 1 has not answered since 2026-" in notice.why
    await lost.open()
    await lost.sync()
    await keep_up(fleet, [alive, lost], 400)
    assert fleet.service.heard() == [("firing", "node_down"), ("recovered", "node_down")]


async def test_a_node_that_is_drained_makes_no_notice(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    lost, alive = await fleet.node(), await fleet.node()
    await store.set_maintenance(lost.id, fleet.clock.now() + 60_000, True, fleet.clock.now())
    await lose_nodes(fleet, [alive])
    await keep_up(fleet, [alive], 60)
    assert fleet.service.arrived == []


async def test_a_cluster_in_maintenance_mutes_its_nodes(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    lost, alive = await fleet.node(), await fleet.node()
    await store.put_cluster(Cluster("default", ClusterStatus.MAINTENANCE), fleet.clock.now())
    await lose_nodes(fleet, [alive])
    await keep_up(fleet, [alive], 60)
    assert fleet.service.arrived == []
    [report] = await fleet.master.alert_parts.alerts.list_alerts("node_down")
    assert (report.state.scope, report.muted_why) == (
        f"node:{node_text(lost.id)}",
        "cluster default is in maintenance",
    )


async def test_a_dead_cluster_speaks_for_its_nodes(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    nodes = [await fleet.node() for _ in range(5)]
    await lose_nodes(fleet, [])
    await fleet.watch(60)
    assert fleet.service.heard() == [("firing", "cluster_down")]
    assert fleet.service.notices()[0].why == "None of the 5 nodes of cluster default answers."
    assert await fleet.alert_status("node_down", f"node:{node_text(nodes[0].id)}") == "firing"


async def test_a_removed_node_recovers(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    lost, alive = await fleet.node(), await fleet.node()
    await lose_nodes(fleet, [alive])
    await keep_up(fleet, [alive], 44)
    await store.unregister_node(lost.id, fleet.clock.now())
    await keep_up(fleet, [alive], 400)
    assert fleet.service.heard() == [("firing", "node_down"), ("recovered", "node_down")]


async def test_a_full_disk_of_a_node_fires_and_clears_above_its_threshold(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    node = await fleet.node()
    scope = f"disk:{node_text(node.id)}"

    async def fill(part: float, seconds: int) -> None:
        for _ in range(seconds // 4):
            await fleet.master.sync.sync(node.next_up(measurement=MeasurementBody(disk=part)))
            await fleet.watch(4, 4)

    await fill(0.95, 80)
    assert fleet.service.heard() == [("firing", "disk_low")]
    assert "has 5% of its disk free" in fleet.service.notices()[0].why
    await fill(0.88, 60)
    assert await fleet.alert_status("disk_low", scope) == "firing"
    await fill(0.80, 60)
    assert await fleet.alert_status("disk_low", scope) == "ok"


async def test_the_disk_of_a_master_is_measured_by_its_own_row(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("disk_low", for_s=0)
    identity = MasterIdentity(await store.register_master("m1", fleet.clock.now()), "m1", fleet.clock.now(), "1.0")
    figures = MasterFigures(disks={"data": DiskFigures("/data", 100 * GIB, 2 * GIB)})
    await store.record_master_beat(identity, figures, fleet.clock.now())
    await fleet.watch(12, 2)
    [notice] = fleet.service.notices()
    assert (notice.scope, notice.why) == ("disk:m1:data", "2.0 GiB (2%) of the disk of /data are free.")


def test_a_large_disk_with_little_space_counts_as_a_small_part() -> None:
    assert disk_sample("a", DiskFigures("/", 1000 * GIB, 500 * GIB)).value == 0.5
    assert disk_sample("a", DiskFigures("/", 10 * GIB, 5 * GIB)).value == pytest.approx(0.1)
    assert disk_sample("a", DiskFigures("/", 0, 0)).value == 0
