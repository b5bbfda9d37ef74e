"""Nodes as people read them: found by id or device id, with slots, running tasks and measurements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.nodes.node_reader import NodeReader
from crawlfleet.model.node import Measurement
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def reader(kit: Kit, broker: MemoryBroker) -> NodeReader:
    return NodeReader(
        store=kit.store,
        measurements=broker.measurements,
        configure=Configure(store=kit.store, clock=FakeClock(kit.now)),
    )


async def test_a_removed_node_is_found_no_more(kit: Kit, reader: NodeReader) -> None:
    node = await kit.join(device_id="worker-1")
    assert await reader.find_by_device("worker-1") == node
    assert await reader.find_by_device("worker-2") is None
    found = await reader.find_node(node)
    assert found is not None
    assert found.id == node
    assert [listed.id for listed in await reader.list_nodes()] == [node]
    await kit.store.unregister_node(node, kit.now)
    assert await reader.find_node(node) is None
    assert await reader.find_node(node + 1) is None
    assert await reader.list_nodes() == []


async def test_reports_come_by_name_with_what_each_node_uses(
    kit: Kit, broker: MemoryBroker, reader: NodeReader
) -> None:
    silent = await kit.join(name="b")
    busy = await kit.node(name="a")
    await kit.run(busy, 2)
    for node in (silent, busy.id):
        await broker.measurements.put_measurement(node, Measurement(cpu=0.5))
    first, second = await reader.report_nodes(await reader.list_nodes())
    assert (first.node.id, first.slots, first.running, first.follows_load) == (busy.id, 10, 2, False)
    assert first.measurement == Measurement(cpu=0.5)
    # What was measured of a node that is not connected says nothing about now.
    assert (second.node.id, second.running, second.measurement) == (silent, 0, None)


async def test_clusters_are_listed_for_filters(reader: NodeReader) -> None:
    assert "default" in {cluster.name for cluster in await reader.list_clusters()}


async def test_the_history_has_the_samples_of_one_node(kit: Kit, reader: NodeReader) -> None:
    node, other = await kit.join(), await kit.join()
    await kit.store.add_heartbeats([(node, b"{}"), (other, b"{}")], await kit.term(), kit.now)
    assert len(await reader.list_heartbeats(node, 0, kit.now + 1, 10)) == 1
    assert not await reader.list_heartbeats(node, 0, kit.now, 10)
