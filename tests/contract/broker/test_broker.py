"""The broker's contract, over every implementation: each function of `suite_broker` is one behaviour."""

import asyncio
import inspect
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.memory.ready import TAKEN_KEPT_S
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
    before = await broker.generation()
    await broker.ready.offer({1: [1, 2]})
    await broker.ready.take({1: 1})
    await broker.signals.wake([LEADER])
    await broker.freed.post([(1, 1)])
    await broker.board.put(1, Measurement())
    await broker.progress.put({1: b"{}"})
    await broker.empty()
    assert await broker.generation() != before
    assert await broker.ready.windows() == []
    assert not await broker.signals.wait(LEADER, 0)
    assert await broker.freed.take_all() == []
    assert await broker.board.all() == {}
    assert await broker.progress.of([1]) == {}
    await broker.ready.refill(1, [1, 2], is_deep=False)
    assert await broker.ready.take({1: 9}) == {1: [1, 2]}


async def test_generations_come_from_the_given_chance() -> None:
    first, second = (MemoryBroker(rng=random.Random(7)) for _ in range(2))
    assert await first.generation() == await second.generation()
    assert await MemoryBroker().generation() != await MemoryBroker().generation()


async def test_a_master_that_closes_it_takes_nothing_from_the_others() -> None:
    broker = MemoryBroker()
    await broker.ready.offer({1: [1]})
    await broker.close()
    assert await broker.ready.windows() == [Window(1, 1, 1, is_deep=False)]


def test_what_was_taken_is_not_hidden_for_good() -> None:
    """Ready again, and the offer that should have said so was lost: a refill shows it after some seconds."""

    async def main() -> None:
        ready = MemoryBroker().ready
        await ready.offer({1: [1]})
        await ready.take({1: 1})
        await asyncio.sleep(TAKEN_KEPT_S - 0.1)
        await ready.refill(1, [1], is_deep=False)
        assert await ready.windows() == [], "it may still be on its way to a node"
        await asyncio.sleep(TAKEN_KEPT_S + 0.2)
        await ready.refill(1, [1], is_deep=False)
        assert await ready.take({1: 1}) == {1: [1]}

    run(main())


def test_what_was_taken_is_remembered_over_a_turn() -> None:
    async def main() -> None:
        ready = MemoryBroker().ready
        await ready.offer({1: [1, 2]})
        await ready.take({1: 1})
        await asyncio.sleep(TAKEN_KEPT_S + 0.1)
        await ready.take({1: 1})
        await ready.refill(1, [1, 2], is_deep=False)
        assert await ready.windows() == []

    run(main())


def test_waiting_takes_virtual_time_only() -> None:
    async def main() -> None:
        signals = MemoryBroker().signals
        assert not await signals.wait(LEADER, 3_600)
        assert running_loop().time() == 3_600

    run(main())


async def test_topics_without_a_use_take_no_room() -> None:
    signals = MemoryBroker().signals
    for number in range(20_000):
        await signals.wake([f"node:{number}"])
    assert len(signals.topics()) == 10_000
    assert await signals.wait("node:19999", 0)
    signals.forget()
    await signals.wait("quiet", 0.001)
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(signals.wait("busy", 10)) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.sleep(0)
        assert signals.topics() == {"busy"}
        await signals.wake(["busy"])
    assert signals.topics() == set()


async def test_a_signal_that_reached_a_cancelled_wait_is_kept_for_the_next() -> None:
    signals = MemoryBroker().signals
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(signals.wait(LEADER, 10))
        await asyncio.sleep(0)
        await signals.wake([LEADER])
        wait.cancel()
    assert await signals.wait(LEADER, 0)


async def test_the_feed_of_freed_slots_is_bounded() -> None:
    freed = MemoryBroker().freed
    await freed.post([(1, number) for number in range(150_000)])
    kept = await freed.take_all()
    assert (len(kept), kept[-1]) == (100_000, (1, 149_999))
