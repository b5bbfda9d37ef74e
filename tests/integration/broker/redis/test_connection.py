"""Redis away: nothing raises, nothing waits long, each master goes on by itself, and all come together again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crawlfleet.ports.broker import LEADER, LOOK, node_topic
from testkit.patience import promised
from testkit.servers import RedisServer
from tests.integration.broker.redis.redis_kit import PREFIX, Brokers, assert_works_locally, brokers_on, until, use
from tests.integration.faults.faults_kit import Fleet
from tests.integration.faults.faults_stores import sqlite_stores

pytestmark = pytest.mark.integration

SOON_S = 0.6
"""A call gives up after 250 ms; the rest is for a busy machine."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Apart from the shared one: these tests stop, pause and kill it."""
    with RedisServer() as server:
        yield server


@pytest.fixture
async def brokers(server: RedisServer) -> AsyncIterator[Brokers]:
    async with brokers_on(server) as brokers:
        yield brokers


# -- emptied


async def test_a_flush_shows_in_the_generation(brokers: Brokers, server: RedisServer) -> None:
    one, other = await brokers.two()
    before = await one.load_generation()
    await one.ready_index.offer_tasks({1: [1, 2]})
    server.flush()
    after = await one.load_generation()
    assert after not in ("", before)
    assert await other.load_generation() == after
    assert await one.ready_index.list_windows() == []
    await other.ready_index.refill_window(1, [1, 2], is_deep=False)
    assert await one.ready_index.pop_tasks({1: 9}) == {1: [1, 2]}
    assert one.state.last_error == ""


async def test_killed_and_started_again(brokers: Brokers, server: RedisServer) -> None:
    one, other = await brokers.two()
    generations = [await one.load_generation()]
    await one.ready_index.offer_tasks({1: [1, 2]})
    server.kill()
    await until(lambda: not one.state.is_up and not other.state.is_up)
    generations.append(await one.load_generation())
    assert await one.ready_index.list_windows() == []
    await assert_works_locally(one)
    await asyncio.to_thread(server.start)
    await until(lambda: one.state.is_up and other.state.is_up)
    generations.append(await one.load_generation())
    assert len(set(generations)) == 3, "the leader has to notice both"
    assert await one.ready_index.list_windows() == [], "what was offered meanwhile comes from the store"
    await one.ready_index.offer_tasks({1: [7]})
    assert await other.ready_index.pop_tasks({1: 9}) == {1: [7]}
    assert await one.measurements.load_measurements() == {}


async def test_signals_reach_other_masters_again_after_an_outage(brokers: Brokers, server: RedisServer) -> None:
    one, other = await brokers.two()
    server.kill()
    await until(lambda: not one.state.is_up and not other.state.is_up)
    await one.signals.send_signals(["lost"])
    assert not await other.signals.wait_for_signal("lost", 0)
    await asyncio.to_thread(server.start)
    await until(lambda: one.state.is_up and other.state.is_up)
    await one.signals.send_signals([node_topic(5)])
    assert await other.signals.wait_for_signal(node_topic(5), 10)
    await other.events.announce_event(9)

    async def is_announced() -> bool:
        return await one.events.last_announced() == 9

    await until(is_announced)


async def test_the_leader_is_woken_at_each_change(brokers: Brokers, server: RedisServer) -> None:
    broker = await brokers.one()
    assert not await broker.signals.wait_for_signal(LEADER, 0)
    server.kill()
    assert await broker.signals.wait_for_signal(LEADER, 10)
    assert await broker.signals.wait_for_signal(LOOK, 0)
    assert not broker.state.is_up
    await asyncio.to_thread(server.start)
    assert await broker.signals.wait_for_signal(LEADER, 10)
    assert broker.state.is_up


async def test_slots_freed_during_an_outage_are_told_afterwards(brokers: Brokers, server: RedisServer) -> None:
    one, other = await brokers.two()
    server.kill()
    await until(lambda: not one.state.is_up and not other.state.is_up)
    await one.freed_slots.post_slots([(1, 2)])
    await other.freed_slots.post_slots([(3, 4)])
    await asyncio.to_thread(server.start)
    freed: set[tuple[int, int]] = set()

    async def are_told() -> bool:
        freed.update(await one.freed_slots.pop_slots())
        return freed == {(1, 2), (3, 4)}

    await until(are_told)


async def test_who_was_away_alone_makes_the_leader_look_again(brokers: Brokers) -> None:
    """What a master offered while it was cut off is in no index."""
    leader, other = await brokers.two()
    before = await leader.load_generation()
    for client in brokers.client.client_list():
        if client["sub"] != "0":
            brokers.client.client_kill_filter(_id=client["id"])
            break
    await until(lambda: bool(leader.state.last_error or other.state.last_error))
    await until(lambda: leader.state.is_up and other.state.is_up)
    assert await leader.load_generation() != before


# -- silent


async def test_hanging_for_three_seconds(brokers: Brokers, server: RedisServer) -> None:
    broker = await brokers.one()
    await broker.ready_index.offer_tasks({1: [1]})
    before = await broker.load_generation()
    server.pause()
    hangs_until = time.monotonic() + 3
    began = time.monotonic()
    await broker.ready_index.offer_tasks({1: [2]})
    assert 0.2 < time.monotonic() - began < promised(SOON_S)
    assert "250 ms" in broker.state.last_error
    began = time.monotonic()
    for _ in range(20):
        await use(broker)
    assert time.monotonic() - began < promised(0.25), "the following calls do not wait again"
    await assert_works_locally(broker)
    during = await broker.load_generation()
    await until(lambda: time.monotonic() > hangs_until)
    assert not broker.state.is_up
    server.resume()
    await until(lambda: broker.state.is_up)
    assert len({before, during, await broker.load_generation()}) == 3
    await broker.ready_index.clear()
    await broker.ready_index.offer_tasks({1: [5]})
    assert await broker.ready_index.pop_tasks({1: 9}) == {1: [5]}


async def test_many_calls_at_once_wait_together(brokers: Brokers, server: RedisServer) -> None:
    broker = await brokers.one()
    server.pause()
    began = time.monotonic()
    await asyncio.gather(*(use(broker) for _ in range(100)))
    assert time.monotonic() - began < promised(SOON_S + 0.5)
    server.resume()
    await until(lambda: broker.state.is_up)


async def test_whoever_gives_up_at_the_start_leaves_nothing(brokers: Brokers, server: RedisServer) -> None:
    server.pause()
    before = asyncio.all_tasks()
    connecting = asyncio.create_task(brokers.one())
    await asyncio.sleep(0.05)
    connecting.cancel()
    await asyncio.wait([connecting])
    server.resume()
    assert connecting.cancelled()
    assert asyncio.all_tasks() == before


async def test_nobody_asks_and_it_is_noticed_anyway(brokers: Brokers, server: RedisServer) -> None:
    broker = await brokers.one()
    server.pause()
    await until(lambda: not broker.state.is_up)
    server.resume()
    await until(lambda: broker.state.is_up)


async def test_closing_does_not_wait_for_a_redis_that_hangs(brokers: Brokers, server: RedisServer) -> None:
    broker = await brokers.one()
    server.pause()
    # More than the sockets between them hold: a part of it is still to be written.
    offer = asyncio.create_task(broker.ready_index.offer_tasks({lane: range(1, 10_000) for lane in range(100)}))
    await asyncio.sleep(0)
    began = time.monotonic()
    await broker.close()
    await offer
    assert time.monotonic() - began < promised(SOON_S + 0.5)
    server.resume()


# -- the leader


async def test_a_leader_goes_on_through_every_outage(
    brokers: Brokers, server: RedisServer, tmp_path: Path, empty_sqlite: Path
) -> None:
    """It rebuilds what it needs from the store, here and there, and no task is left behind."""
    stores = sqlite_stores(tmp_path, empty_sqlite)
    fleet = Fleet(await stores.fresh(), window=50)
    leading = await brokers.one(window=50)
    await fleet.start(broker=leading)
    node = await fleet.node(slots=1_000)

    async def work_is_placed() -> None:
        await fleet.tasks(120)
        await fleet.tasks(30, priority=1)
        await until(all_placed)
        await fleet.settle()

    async def all_placed() -> bool:
        await fleet.dispatch()
        await node.sync()
        return len(await fleet.held_by(node)) == 150

    await work_is_placed()
    server.flush()
    await work_is_placed()
    server.pause()
    await work_is_placed()
    server.resume()
    await until(lambda: leading.state.is_up)
    await work_is_placed()
    server.kill()
    await work_is_placed()
    await asyncio.to_thread(server.start)
    await until(lambda: leading.state.is_up)
    await work_is_placed()
    assert brokers.client.exists(f"{PREFIX}ready")
    await fleet.judge()
    await stores.close()
