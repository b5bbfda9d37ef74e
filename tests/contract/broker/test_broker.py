"""The broker's contract, over every implementation: each function of `suite_broker` is one behaviour."""

import asyncio
import inspect
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.memory.ready import TAKEN_MEMORY_S
from crawlfleet.broker.redis import RedisBroker
from crawlfleet.model.node import Measurement
from crawlfleet.ports.broker import LEADER, Broker, Window
from testkit.servers import RedisServer
from testkit.virtual_loop import run, running_loop
from tests.contract.broker import suite_broker
from tests.contract.broker.suite_broker import TOTAL, WINDOW, Ids

pytestmark = pytest.mark.contract

Behaviour = Callable[[Broker, Ids], Awaitable[None]]

BEHAVIOURS = [
    function
    for name, function in inspect.getmembers(suite_broker, inspect.iscoroutinefunction)
    if not name.startswith("_")
]


@pytest.fixture
def ids() -> Ids:
    numbers = itertools.count(1_000)
    return lambda count: list(itertools.islice(numbers, count))


@pytest.fixture(params=["memory", "redis"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[Broker]:
    if request.param == "memory":
        yield MemoryBroker(window=WINDOW, total=TOTAL)
        return
    # Asked for here, so that the server starts only when somebody needs it.
    server: RedisServer = request.getfixturevalue("redis_server")
    server.flush()
    redis = await RedisBroker.connect(server.url, "contract", window=WINDOW, total=TOTAL)
    yield redis
    # A broker that went away would have answered from memory, and proved nothing.
    assert redis.state.last_error == ""
    await redis.close()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda function: function.__name__)
async def test_broker(broker: Broker, ids: Ids, behaviour: Behaviour) -> None:
    await behaviour(broker, ids)


# What belongs to memory alone


async def test_emptied_it_has_forgotten_everything_and_says_so() -> None:
    broker = MemoryBroker(rng=random.Random(1))
    before = await broker.load_generation()
    await broker.ready_index.offer_tasks({1: [1, 2]})
    await broker.ready_index.pop_tasks({1: 1})
    await broker.signals.send_signals([LEADER])
    await broker.freed_slots.post_slots([(1, 1)])
    await broker.measurements.put_measurement(1, Measurement())
    await broker.progress.put_progress({1: b"{}"})
    await broker.forget_all()
    assert await broker.load_generation() != before
    assert await broker.ready_index.list_windows() == []
    assert not await broker.signals.wait_for_signal(LEADER, 0)
    assert await broker.freed_slots.pop_slots() == []
    assert await broker.measurements.load_measurements() == {}
    assert await broker.progress.load_progress([1]) == {}
    await broker.ready_index.refill_window(1, [1, 2], is_deep=False)
    assert await broker.ready_index.pop_tasks({1: 9}) == {1: [1, 2]}


async def test_generations_come_from_the_given_chance() -> None:
    first, second = (MemoryBroker(rng=random.Random(7)) for _ in range(2))
    assert await first.load_generation() == await second.load_generation()
    assert await MemoryBroker().load_generation() != await MemoryBroker().load_generation()


async def test_a_master_that_closes_it_takes_nothing_from_the_others() -> None:
    broker = MemoryBroker()
    await broker.ready_index.offer_tasks({1: [1]})
    await broker.close()
    assert await broker.ready_index.list_windows() == [Window(1, 1, 1, is_deep=False)]


def test_what_was_taken_is_not_hidden_for_good() -> None:
    """Ready again, and the offer that should have said so was lost: a refill shows it after some seconds."""

    async def main() -> None:
        ready = MemoryBroker().ready_index
        await ready.offer_tasks({1: [1]})
        await ready.pop_tasks({1: 1})
        await asyncio.sleep(TAKEN_MEMORY_S - 0.1)
        await ready.refill_window(1, [1], is_deep=False)
        assert await ready.list_windows() == [], "it may still be on its way to a node"
        await asyncio.sleep(TAKEN_MEMORY_S + 0.2)
        await ready.refill_window(1, [1], is_deep=False)
        assert await ready.pop_tasks({1: 1}) == {1: [1]}

    run(main())


def test_what_was_taken_is_remembered_over_a_turn() -> None:
    async def main() -> None:
        ready = MemoryBroker().ready_index
        await ready.offer_tasks({1: [1, 2]})
        await ready.pop_tasks({1: 1})
        await asyncio.sleep(TAKEN_MEMORY_S + 0.1)
        await ready.pop_tasks({1: 1})
        await ready.refill_window(1, [1, 2], is_deep=False)
        assert await ready.list_windows() == []

    run(main())


def test_waiting_takes_virtual_time_only() -> None:
    async def main() -> None:
        signals = MemoryBroker().signals
        assert not await signals.wait_for_signal(LEADER, 3_600)
        assert running_loop().time() == 3_600

    run(main())


async def test_topics_without_a_use_take_no_room() -> None:
    signals = MemoryBroker().signals
    for number in range(20_000):
        await signals.send_signals([f"node:{number}"])
    assert len(signals.list_topics()) == 10_000
    assert await signals.wait_for_signal("node:19999", 0)
    signals.forget_all()
    await signals.wait_for_signal("quiet", 0.001)
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(signals.wait_for_signal("busy", 10)) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.sleep(0)
        assert signals.list_topics() == {"busy"}
        await signals.send_signals(["busy"])
    assert signals.list_topics() == set()


async def test_a_signal_that_reached_a_cancelled_wait_is_kept_for_the_next() -> None:
    signals = MemoryBroker().signals
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(signals.wait_for_signal(LEADER, 10))
        await asyncio.sleep(0)
        await signals.send_signals([LEADER])
        wait.cancel()
    assert await signals.wait_for_signal(LEADER, 0)


async def test_the_feed_of_freed_slots_is_bounded() -> None:
    freed = MemoryBroker().freed_slots
    await freed.post_slots([(1, number) for number in range(150_000)])
    kept = await freed.pop_slots()
    assert (len(kept), kept[-1]) == (100_000, (1, 149_999))
