"""Changes of a node that a person requests: what is refused, and what the node has afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import Node
from crawlfleet.model.status import NodeStatus
from testkit.clock import FakeClock
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

NO_NODE = 99


class Desk:
    def __init__(self, kit: Kit, master: Master, node: NodeId) -> None:
        self.kit, self.changes, self.node = kit, master.node_changes, node

    async def read(self) -> Node:
        (node,) = [node for node in await self.kit.store.load_nodes() if node.id == self.node]
        return node


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with sqlite_kit(tmp_path) as kit:
        node = (await kit.node()).id
        master = await Master.start("m", kit.store, MemoryBroker(), {}, clock=FakeClock(kit.now))
        yield Desk(kit, master, node)


async def test_a_drain_has_its_end_and_is_taken_back(desk: Desk) -> None:
    await desk.changes.drain_node(desk.node, 60)
    assert (await desk.read()).status is NodeStatus.MAINTENANCE
    assert (await desk.read()).drain_by == desk.kit.now + 60_000
    await desk.changes.make_ready(desk.node)
    assert (await desk.read()).status is NodeStatus.ONLINE
    assert (await desk.read()).drain_by is None


@pytest.mark.parametrize("within_s", [-1, 7 * 86_400 + 1])
async def test_a_drain_of_an_impossible_span_is_refused(desk: Desk, within_s: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        await desk.changes.drain_node(desk.node, within_s)
    assert refused.value.field == "within_s"
    assert (await desk.read()).drain_by is None


async def test_slots_are_a_number_or_follow_the_load_or_neither(desk: Desk) -> None:
    await desk.changes.set_slots(desk.node, 3)
    assert ((await desk.read()).slots_wanted, (await desk.read()).follows_load) == (3, False)
    await desk.changes.set_slots(desk.node, None, follows_load=True)
    assert ((await desk.read()).slots_wanted, (await desk.read()).follows_load) == (None, True)
    await desk.changes.set_slots(desk.node, None)
    assert ((await desk.read()).slots_wanted, (await desk.read()).follows_load) == (None, False)


@pytest.mark.parametrize("slots", [-1, limits.SLOTS_MAX + 1])
async def test_an_impossible_number_of_slots_is_refused(desk: Desk, slots: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        await desk.changes.set_slots(desk.node, slots)
    assert refused.value.field == "slots"


async def test_a_node_that_is_unregistered_is_gone(desk: Desk) -> None:
    await desk.changes.unregister_node(desk.node)
    assert [node.id for node in await desk.kit.store.load_nodes()] == []


async def test_a_node_that_does_not_exist_is_not_found(desk: Desk) -> None:
    for call in (
        desk.changes.drain_node(NO_NODE),
        desk.changes.make_ready(NO_NODE),
        desk.changes.set_slots(NO_NODE, 1),
        desk.changes.unregister_node(NO_NODE),
    ):
        with pytest.raises(NotFound):
            await call
