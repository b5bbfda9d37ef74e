"""The simple client's heartbeat opens a session, renews it, and tells what is stale."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.nodes.heartbeat import UNHEEDED_S, Heartbeat, StopOrder
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.errors import NotFound
from crawlfleet.model.ids import NodeId, task_text
from crawlfleet.model.node import ANY_TASK, Measurement, Node
from crawlfleet.model.status import NodeStatus, TaskStatus
from crawlfleet.ports.pull_store import PullRequest
from testkit.clock import FakeClock
from testkit.factories import Kit, ReadyNode
from tests.unit.store.store_kit import sqlite_kit


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def heartbeat(kit: Kit, clock: FakeClock) -> Heartbeat:
    broker, rng = MemoryBroker(), Random(1)
    finish = Finish(store=kit.store, broker=broker, clock=clock, rng=rng)
    return Heartbeat(store=kit.store, broker=broker, clock=clock, rng=rng, finish=finish)


async def node_of(kit: Kit, node: NodeId) -> Node:
    (found,) = await kit.second.load_nodes([node])
    return found


async def test_the_first_one_opens_a_session_and_brings_the_node_online(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    beat = await heartbeat.record_heartbeat(node, Measurement(cpu=0.65, load=0.8), [])
    assert (beat.node, beat.status, beat.stale) == (node, NodeStatus.ONLINE, [])
    found = await node_of(kit, node)
    assert (found.session, found.is_session_open, found.renewals) == (1, True, 1)
    assert found.measurement == Measurement(cpu=0.65, load=0.8)


async def test_the_next_ones_renew_the_same_session(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    for _ in range(3):
        await heartbeat.record_heartbeat(node, Measurement(), [])
    found = await node_of(kit, node)
    assert (found.session, found.renewals) == (1, 3)


async def test_it_says_when_the_next_one_is_due(kit: Kit, heartbeat: Heartbeat) -> None:
    agreed, silent = (
        await kit.join(is_pull_only=True, lease_ms=15_000),
        await kit.join(is_pull_only=True, lease_ms=10**6),
    )
    assert [(await heartbeat.record_heartbeat(node, Measurement(), [])).next_s for node in (agreed, silent)] == [
        5.0,
        30.0,
    ]


async def test_two_at_once_open_one_session(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    beats = await asyncio.gather(*(heartbeat.record_heartbeat(node, Measurement(), []) for _ in range(5)))
    assert {beat.status for beat in beats} == {NodeStatus.ONLINE}
    assert (await node_of(kit, node)).session == 1


async def test_after_a_lost_lease_the_next_one_begins_anew(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), [])
    await kit.end(ReadyNode(node, 1))
    assert (await node_of(kit, node)).status is NodeStatus.UNRESPONSIVE
    assert (await heartbeat.record_heartbeat(node, Measurement(), [])).status is NodeStatus.ONLINE
    assert (await node_of(kit, node)).session == 2


async def test_tasks_that_the_store_does_not_give_to_the_node_are_stale(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), [])
    run, gone = await kit.run(ReadyNode(node, 1), 2)
    others = await kit.run_one(await kit.node())
    await kit.complete(gone)
    named = [task_text(run.task), task_text(gone.task), task_text(others.task), "task-123"]
    beat = await heartbeat.record_heartbeat(node, Measurement(), named)
    assert beat.stale == named[1:]


async def test_a_node_with_an_agent_is_only_told_how_it_is(kit: Kit, heartbeat: Heartbeat) -> None:
    ready = await kit.node()
    run = await kit.run_one(ready)
    async with kit.unchanged():
        beat = await heartbeat.record_heartbeat(ready.id, Measurement(cpu=1.0), [task_text(run.task), "task-123"])
    assert (beat.status, beat.stale) == (NodeStatus.ONLINE, ["task-123"])


async def test_a_held_node_stays_held(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await kit.store.set_maintenance(node, None, True, kit.now)
    assert (await heartbeat.record_heartbeat(node, Measurement(), [])).status is NodeStatus.MAINTENANCE


async def test_a_node_that_is_not_known_or_was_removed_is_not_found(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await kit.store.unregister_node(node, kit.now)
    for unknown in (node, 12345):
        with pytest.raises(NotFound):
            await heartbeat.record_heartbeat(unknown, Measurement(), [])


async def test_a_recall_is_an_order_to_stop_with_its_reason(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    run, other = await kit.run(ReadyNode(node, 1), 2)
    await kit.start(run)
    await kit.cancel(run.task)
    for _ in range(2):
        beat = await heartbeat.record_heartbeat(node, Measurement(), None)
        assert beat.stops == [StopOrder(run.task, run.execution, "cancel")]
    beat = await heartbeat.record_heartbeat(node, Measurement(), [task_text(run.task), task_text(other.task)])
    assert beat.stops == [StopOrder(run.task, run.execution, "cancel")]


async def test_a_recalled_task_that_the_client_does_not_run_is_over(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    run, other = await kit.run(ReadyNode(node, 1), 2)
    await kit.start(run)
    await kit.cancel(run.task)
    beat = await heartbeat.record_heartbeat(node, Measurement(), [task_text(other.task)])
    assert (beat.stops, await kit.status(run.task)) == ([], TaskStatus.CANCELLED)


async def test_a_recall_that_is_not_heeded_is_carried_out_without_the_client(
    kit: Kit, heartbeat: Heartbeat, clock: FakeClock
) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    run = await kit.run_one(ReadyNode(node, 1))
    await kit.start(run)
    await kit.cancel(run.task)
    await heartbeat.record_heartbeat(node, Measurement(), [task_text(run.task)])
    clock.advance(UNHEEDED_S - 1)
    assert (await heartbeat.record_heartbeat(node, Measurement(), [task_text(run.task)])).stops
    clock.advance(1)
    beat = await heartbeat.record_heartbeat(node, Measurement(), [task_text(run.task)])
    assert (list(beat.stops), await kit.status(run.task)) == ([], TaskStatus.CANCELLED)


async def test_when_a_drain_is_over_the_client_hands_everything_back(
    kit: Kit, heartbeat: Heartbeat, clock: FakeClock
) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    run = await kit.run_one(ReadyNode(node, 1))
    await kit.start(run)
    await kit.store.set_maintenance(node, clock.now() + 10_000, True, kit.now)
    beat = await heartbeat.record_heartbeat(node, Measurement(), None)
    assert (list(beat.stops), beat.drain_by) == ([], clock.now() + 10_000)
    clock.advance(10)
    beat = await heartbeat.record_heartbeat(node, Measurement(), None)
    assert beat.stops == [StopOrder(run.task, run.execution, "drain")]
    clock.advance(UNHEEDED_S)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    assert await kit.status(run.task) is TaskStatus.PENDING


async def test_a_call_that_shows_life_opens_a_session_and_renews_it_now_and_then(
    kit: Kit, heartbeat: Heartbeat, clock: FakeClock
) -> None:
    node = await kit.join(is_pull_only=True, lease_ms=60_000)
    assert (await heartbeat.ensure_session(node)).status is NodeStatus.ONLINE
    await heartbeat.record_heartbeat(node, Measurement(cpu=0.5), None)
    await heartbeat.ensure_session(node)
    assert (await node_of(kit, node)).renewals == 2
    clock.advance(10)
    record = await heartbeat.ensure_session(node)
    assert (record.session, record.renewals, record.measurement) == (1, 3, Measurement(cpu=0.5))


async def test_a_recalled_task_that_was_never_delivered_is_over(kit: Kit, heartbeat: Heartbeat) -> None:
    node = await kit.join(is_pull_only=True)
    await heartbeat.record_heartbeat(node, Measurement(), None)
    run, sent = await kit.run(ReadyNode(node, 1), 2)
    request = PullRequest(node, 1, 1, 1_000, ANY_TASK)
    assert [row.id for row in (await kit.store.begin_pull(request, 3_000, kit.now)).claimed] == [run.task]
    await kit.cancel(run.task, sent.task)
    beat = await heartbeat.record_heartbeat(node, Measurement(), None)
    assert beat.stops == [StopOrder(run.task, run.execution, "cancel")]
    assert await kit.status(sent.task) is TaskStatus.CANCELLED
