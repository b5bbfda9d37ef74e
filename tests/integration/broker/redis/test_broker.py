"""Several masters on one Redis: what one says the others know; whose it is; and what is left in it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from crawlfleet.broker.redis import broker as parts
from crawlfleet.broker.redis import node_measurements
from crawlfleet.errors import ConfigError
from crawlfleet.model.node import Measurement
from crawlfleet.ports.broker import LEADER, Window, node_topic
from testkit.servers import RedisServer
from tests.integration.broker.redis.redis_kit import INSTALLATION, OWNER, PREFIX, Brokers, brokers_on, until

pytestmark = pytest.mark.integration


@pytest.fixture
async def brokers(redis_server: RedisServer) -> AsyncIterator[Brokers]:
    redis_server.flush()
    async with brokers_on(redis_server) as brokers:
        yield brokers


# -- memory


async def test_the_memory_of_redis_is_told_where_it_has_a_limit(brokers: Brokers) -> None:
    broker = await brokers.one()
    assert await broker.load_memory() is None
    brokers.client.config_set("maxmemory", "1gb")
    brokers.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        memory = await broker.load_memory()
    finally:
        brokers.client.config_set("maxmemory", "0")
        brokers.client.config_set("maxmemory-policy", "noeviction")
    assert memory is not None
    assert 0 < memory.used_part < 1
    assert memory.eviction == "allkeys-lru"


async def test_a_user_that_may_not_ask_for_the_memory_keeps_its_connection(brokers: Brokers) -> None:
    broker = await brokers.one()
    brokers.client.execute_command("ACL SETUSER default -info")
    try:
        assert await broker.load_memory() is None
        assert await broker.is_up()
        assert broker.state.last_error == ""
    finally:
        brokers.client.execute_command("ACL SETUSER default +info")


# -- between masters


async def test_what_one_master_offers_another_takes(brokers: Brokers) -> None:
    one, other = await brokers.two()
    await one.ready_index.offer_tasks({1: [3, 4]})
    await other.ready_index.offer_tasks({1: [2]})
    assert await other.ready_index.list_windows() == [Window(1, 2, 3, is_deep=False)]
    assert await other.ready_index.pop_tasks({1: 2}) == {1: [2, 3]}
    await one.ready_index.discard_tasks([(1, 4)])
    assert await other.ready_index.list_windows() == []


async def test_a_node_that_waits_at_another_master_is_woken(brokers: Brokers) -> None:
    one, other = await brokers.two()
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(broker.signals.wait_for_signal(node_topic(7), 10)) for broker in (one, other, other)]
        await asyncio.sleep(0)
        await one.signals.send_signals([node_topic(7)])
    assert [wait.result() for wait in waits] == [True] * 3


async def test_a_signal_is_kept_at_every_master(brokers: Brokers) -> None:
    one, other = await brokers.two()
    await one.signals.send_signals([LEADER])
    assert await other.signals.wait_for_signal(LEADER, 10)
    assert await one.signals.wait_for_signal(LEADER, 0)
    await one.signals.send_signals(["after"])
    assert await other.signals.wait_for_signal("after", 10)
    assert not await one.signals.wait_for_signal(LEADER, 0), "its own message must not come back to it"
    assert not await other.signals.wait_for_signal(LEADER, 0)


async def test_what_is_woken_in_one_turn_is_one_message(brokers: Brokers) -> None:
    one, other = await brokers.two()
    listening = brokers.client.pubsub(ignore_subscribe_messages=True)
    listening.subscribe(f"{PREFIX}signals")
    assert listening.get_message(timeout=5) is None, "subscribed"
    await asyncio.gather(*(one.signals.send_signals(["all", f"node:{number}"]) for number in range(50)))
    assert await other.signals.wait_for_signal("node:49", 10)
    message = await asyncio.to_thread(listening.get_message, timeout=5)
    _, *topics = message["data"].split("\n")
    assert sorted(topics) == sorted(["all", *(f"node:{number}" for number in range(50))])
    assert listening.get_message() is None
    listening.close()


async def test_a_signal_comes_after_the_hint_it_speaks_of(brokers: Brokers) -> None:
    one, other = await brokers.two()
    for number in range(1, 200):
        await one.ready_index.offer_tasks({1: [number]})
        await one.signals.send_signals([LEADER])
        assert await other.signals.wait_for_signal(LEADER, 10)
        assert await other.ready_index.pop_tasks({1: 9}) == {1: [number]}


async def test_freed_slots_events_measurements_and_progress_reach_every_master(brokers: Brokers) -> None:
    one, other = await brokers.two()
    await one.freed_slots.post_slots([(5, 6)])
    assert await other.freed_slots.pop_slots() == [(5, 6)]
    assert await one.freed_slots.pop_slots() == []
    await one.measurements.put_measurement(5, Measurement(cpu=0.5))

    async def is_shown() -> bool:
        return await other.measurements.load_measurements() == {5: Measurement(cpu=0.5)}

    await until(is_shown)
    await one.progress.put_progress({7: b'{"pages":1}'})
    assert await one.progress.load_progress([7]) == {7: b'{"pages":1}'}
    assert await other.progress.load_progress([7, 8]) == {7: b'{"pages":1}'}
    await one.events.announce_event(12)

    async def is_announced() -> bool:
        return await other.events.last_announced() == 12

    await until(is_announced)


async def test_masters_agree_on_the_generation(brokers: Brokers) -> None:
    one, other = await brokers.two()
    assert await one.load_generation() == await other.load_generation()
    third = await brokers.one()
    assert await third.load_generation() == await one.load_generation(), "a master that starts lost nothing"


# -- whose it is


async def test_a_redis_of_another_installation_is_refused(brokers: Brokers) -> None:
    await brokers.one()
    with pytest.raises(ConfigError) as refused:
        await brokers.one(installation="ffff0000")
    port = brokers.server.port
    for said in (INSTALLATION, "ffff0000", f"redis://127.0.0.1:{port}/0", f"redis://127.0.0.1:{port}/1", OWNER):
        assert said in str(refused.value)
    other = await brokers.one(url=f"redis://127.0.0.1:{port}/1", installation="ffff0000")
    assert await other.is_up()
    assert brokers.client.get(OWNER) == INSTALLATION


async def test_the_claim_is_renewed_and_outlives_a_flush(brokers: Brokers) -> None:
    await brokers.one()
    brokers.client.expire(OWNER, 100)
    await until(lambda: brokers.client.ttl(OWNER) > 100)
    brokers.client.flushall()
    await until(lambda: brokers.client.get(OWNER) == INSTALLATION)


async def test_a_redis_that_somebody_else_took_over_is_away(brokers: Brokers) -> None:
    broker = await brokers.one()
    brokers.client.set(OWNER, "ffff0000")
    await until(lambda: not broker.state.is_up)
    assert "belongs to the installation ffff0000" in broker.state.last_error
    brokers.client.delete(OWNER)
    await until(lambda: broker.state.is_up)


async def test_an_address_that_is_none_is_refused_without_its_password(brokers: Brokers) -> None:
    with pytest.raises(ConfigError, match="broker: ") as refused:
        await brokers.one(url="rediss+what://me:secret@host/0")
    assert "secret" not in str(refused.value)


# -- what is left in it


async def test_every_key_is_prefixed_and_expires(brokers: Brokers) -> None:
    broker = await brokers.one(window=4)
    await broker.ready_index.offer_tasks({1: list(range(1, 10)), 2: [100]})
    await broker.ready_index.pop_tasks({1: 2})
    await broker.ready_index.refill_window(3, [7, 8], is_deep=True)
    await broker.freed_slots.post_slots([(1, 2)])
    await broker.measurements.put_measurement(1, Measurement())
    await broker.measurements.load_measurements()
    await broker.progress.put_progress({1: b"{}"})
    await broker.load_generation()
    names = set(brokers.client.keys())
    assert len(names) == 11, names
    assert all(name.startswith(PREFIX) for name in names - {OWNER})
    assert all(brokers.client.ttl(name) > 0 for name in names)


async def test_a_lane_that_is_done_leaves_nothing(brokers: Brokers) -> None:
    broker = await brokers.one(window=4)
    before = set(brokers.client.keys())
    await broker.ready_index.offer_tasks({1: list(range(1, 9))})
    await broker.ready_index.clear()
    await broker.ready_index.offer_tasks({2: [1, 2]})
    await broker.ready_index.discard_tasks([(2, 1), (2, 2)])
    await broker.ready_index.refill_window(3, [], is_deep=False)
    await broker.ready_index.pop_changed_windows()
    assert brokers.client.hgetall(f"{PREFIX}ready") == {"total": "0"}
    assert set(brokers.client.keys()) - before == {f"{PREFIX}ready"}


async def test_windows_and_what_they_dropped_are_bounded(brokers: Brokers) -> None:
    broker = await brokers.one(window=100, total=250)
    for first in range(1, 50_001, 10_000):
        await broker.ready_index.offer_tasks({lane: range(first, first + 10_000) for lane in (1, 2, 3)})
    sizes = {window.lane: window.size for window in await broker.ready_index.list_windows()}
    assert sorted(sizes.values()) == [83, 83, 84]
    for lane, size in sizes.items():
        assert brokers.client.zcard(f"{PREFIX}ready:{lane}") == size + 100
    assert brokers.client.hget(f"{PREFIX}ready", "total") == "250"


async def test_the_feed_of_freed_slots_is_bounded(brokers: Brokers) -> None:
    broker = await brokers.one()
    for first in (0, 60_000):
        await broker.freed_slots.post_slots([(1, task) for task in range(first, first + 60_000)])
    freed = await broker.freed_slots.pop_slots()
    assert (len(freed), freed[0], freed[-1]) == (100_000, (1, 20_000), (1, 119_999))


async def test_the_board_is_bounded(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_NODES", 3)
    broker = await brokers.one()
    sizes = []
    for node in range(8):
        await broker.measurements.put_measurement(node, Measurement(running=node))
        shown = await broker.measurements.load_measurements()
        assert shown[node] == Measurement(running=node)
        sizes.append(len(shown))
    assert sizes == [1, 2, 3, 1, 2, 3, 1, 2]


async def test_progress_is_bounded_and_what_a_master_heard_itself_outlives_a_flush(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_EXECUTIONS", 3)
    one, other = await brokers.two()
    for execution in range(8):
        await one.progress.put_progress({execution: b"{}"})
        assert await one.progress.load_progress([execution]) == {execution: b"{}"}
        assert brokers.client.hlen(f"{PREFIX}progress") <= 3
    await other.progress.put_progress({9: b"{}"})
    assert await other.progress.load_progress([9]) == await one.progress.load_progress([9])
    brokers.server.flush()
    assert await one.progress.load_progress([7, 9]) == {7: b"{}"}
    assert await other.progress.load_progress([7, 9]) == {9: b"{}"}


async def test_the_board_forgets_who_is_silent(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await brokers.one()
    await broker.measurements.put_measurement(1, Measurement(running=1))
    assert await broker.measurements.load_measurements() == {1: Measurement(running=1)}
    monkeypatch.setattr(broker.measurements, "_wall", lambda: time.time() + node_measurements.FRESH_S + 1)
    await broker.measurements.put_measurement(2, Measurement(running=2))
    brokers.client.hset(f"{PREFIX}board", "3", "of another version")
    assert await broker.measurements.load_measurements() == {2: Measurement(running=2)}
    assert await broker.is_up()
    assert brokers.client.hkeys(f"{PREFIX}board") == ["2"]


async def test_what_was_taken_is_not_hidden_for_good(brokers: Brokers) -> None:
    broker = await brokers.one(taken_kept_s=0.2)
    await broker.ready_index.offer_tasks({1: [1]})
    await broker.ready_index.pop_tasks({1: 1})

    async def is_shown_again() -> bool:
        await broker.ready_index.refill_window(1, [1], is_deep=False)
        return await broker.ready_index.pop_tasks({1: 1}) == {1: [1]}

    began = time.monotonic()
    await until(is_shown_again)
    assert time.monotonic() - began > 0.19


# -- accidents


async def test_scripts_that_were_forgotten_are_brought_again(brokers: Brokers) -> None:
    broker = await brokers.one()
    brokers.client.script_flush()
    await broker.ready_index.offer_tasks({1: [1, 2]})
    assert await broker.ready_index.pop_tasks({1: 1}) == {1: [1]}
    await broker.freed_slots.post_slots([(1, 1)])
    assert await broker.freed_slots.pop_slots() == [(1, 1)]
    assert broker.state.last_error == ""


@pytest.mark.parametrize("lost", ["ready:1", "ready"])
async def test_a_key_that_was_evicted_costs_its_hints_only(brokers: Brokers, lost: str) -> None:
    broker = await brokers.one(window=4, total=9)
    await broker.ready_index.offer_tasks({1: list(range(1, 11)), 2: [5]})
    brokers.client.delete(PREFIX + lost)
    assert await broker.ready_index.pop_tasks({1: 4}) == {}
    await broker.ready_index.refill_window(1, [1, 2, 3], is_deep=False)
    assert await broker.ready_index.pop_tasks({1: 9}) == {1: [1, 2, 3]}
    assert broker.state.last_error == ""


async def test_a_loop_that_stood_still_does_not_blame_redis(brokers: Brokers) -> None:
    broker = await brokers.one()
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(broker.ready_index.offer_tasks({1: [number + 1]}))
        await asyncio.sleep(0.002)
        time.sleep(0.6)  # noqa: ASYNC251
    assert broker.state.last_error == ""
    assert await broker.ready_index.pop_tasks({1: 9}) == {1: [1, 2, 3, 4, 5]}


async def test_who_stops_waiting_for_an_answer_disturbs_nobody(brokers: Brokers) -> None:
    broker = await brokers.one()
    asked = [asyncio.create_task(broker.ready_index.offer_tasks({1: [number + 1]})) for number in range(20)]
    await asyncio.sleep(0)
    for task in asked[::2]:
        task.cancel()
    await asyncio.wait(asked)
    assert (await broker.ready_index.pop_tasks({1: 99}))[1] == list(range(1, 21))


async def test_closed_it_leaves_no_connection_and_no_task(brokers: Brokers) -> None:
    before = asyncio.all_tasks()
    broker = await brokers.one()
    assert brokers.connected() == 2
    await broker.measurements.put_measurement(1, Measurement())
    await broker.signals.send_signals([LEADER])
    await broker.close()
    await until(lambda: brokers.connected() == 0)
    assert asyncio.all_tasks() == before
    await broker.ready_index.offer_tasks({1: [1]})
    await broker.close()
    assert not await broker.is_up()
