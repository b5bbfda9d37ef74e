"""Alerts about tasks that wait, are given up, or fit no node."""

from __future__ import annotations

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration


async def test_a_long_queue_is_told_and_recovers_when_it_is_short(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("queue_size", threshold=10, for_s=0, keep_s=0)
    await fleet.set_rule("slow_queue", kind="queue_size", scope="queue:slow", threshold=5, for_s=0)
    await fleet.tasks(7)
    await fleet.watch(4)
    assert await fleet.alert_status("queue_size") == "ok"
    await fleet.tasks(5, queue="slow")
    await fleet.watch(12)
    assert sorted((notice.rule, notice.scope, notice.why) for notice in fleet.service.notices()) == [
        ("queue_size", "*", "12 tasks wait."),
        ("slow_queue", "queue:slow", "5 tasks wait in queue slow."),
    ]
    node = await fleet.node(slots=100, lease_ms=3_600_000)
    await fleet.dispatch()
    await node.sync()
    await fleet.watch(4)
    assert await fleet.alert_status("queue_size") == "ok"


async def test_a_task_that_waits_for_long_is_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.tasks(1)
    fleet.clock.advance(1_790)
    await fleet.watch(4)
    assert await fleet.alert_status("oldest_wait") == "ok"
    await fleet.watch(30, 2)
    assert ("firing", "oldest_wait") in fleet.service.heard()
    node = await fleet.node(lease_ms=3_600_000)
    await fleet.dispatch()
    await node.sync()
    await fleet.watch(60, 5)
    assert await fleet.alert_status("oldest_wait") == "ok"


async def test_many_dead_letters_are_told_with_their_causes(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("dead_letters", threshold=5)
    await fleet.set_rule("failure_rate", is_enabled=False)
    node = await fleet.node(slots=100, lease_ms=3_600_000)
    await fleet.tasks(6, retry={"max_retries": 0})
    await fleet.dispatch()
    await node.sync()
    for execution in list(node.held):
        node.end(execution, End.FAILED, ErrorClass.NETWORK)
    await node.sync()
    await fleet.master.tallier.run_once(fleet.clock.now())
    await fleet.watch(14, 2)
    [notice] = fleet.service.notices()
    assert (notice.rule, notice.value) == ("dead_letters", 6)
    assert notice.why == "6 tasks became dead letters within 15 minutes. The newest: 6 x network: it broke."
    fleet.clock.advance(1_000)
    await fleet.watch(60, 5)
    assert await fleet.alert_status("dead_letters") == "ok"


async def test_tasks_that_no_node_can_take_are_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.set_rule("tasks_stuck", for_s=20)
    await fleet.node(lease_ms=3_600_000)
    await fleet.tasks(3, min_resources={"cpu": 1_000})
    for _ in range(20):
        await fleet.dispatch()
        await fleet.evaluate()
    for _ in range(20):
        await fleet.dispatch()
        await fleet.evaluate()
    [notice] = [notice for notice in fleet.service.notices() if notice.rule == "tasks_stuck"]
    assert notice.why == "No node can take 3 ready tasks (3 echo)."
