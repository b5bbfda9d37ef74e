"""The ready index on Redis under the same machines as the one in memory."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from crawlfleet.broker.redis import RedisBroker
from testkit.servers import RedisServer
from tests.property.broker.memory.test_ready_properties import (
    TOTAL,
    WINDOW,
    LikeTheNaiveOne,
    NaiveIndex,
    NothingIsMissed,
)

pytestmark = pytest.mark.integration

T = TypeVar("T")

INSTALLATION = "properties"
KEYS = f"crawlfleet:{{{INSTALLATION}}}:ready"


class Desk:
    """A loop to ask a broker on, and a client that looks behind it."""

    def __init__(self, server: RedisServer) -> None:
        self.client = redis.Redis.from_url(server.url)
        self._url = server.url
        self._loop = asyncio.new_event_loop()
        self._brokers: dict[tuple[int, int], RedisBroker] = {}

    def now(self, answer: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(answer)

    def empty_broker(self, window: int, total: int) -> RedisBroker:
        bounds = window, total
        if bounds not in self._brokers:
            connecting = RedisBroker.connect(self._url, INSTALLATION, window=window, total=total)
            self._brokers[bounds] = self.now(connecting)
        self.now(self._brokers[bounds].ready_index.clear())
        return self._brokers[bounds]

    def close(self) -> None:
        for broker in self._brokers.values():
            self.now(broker.close())
        self._loop.close()
        self.client.close()


@pytest.fixture
def desk(redis_server: RedisServer) -> Iterator[Desk]:
    redis_server.flush()
    with closing(Desk(redis_server)) as desk:
        yield desk


def test_it_is_like_the_naive_one(desk: Desk) -> None:
    class OnRedis(LikeTheNaiveOne):
        def __init__(self) -> None:
            super().__init__()
            self.broker = desk.empty_broker(WINDOW, TOTAL)
            self.index = self.broker.ready_index
            self.naive = NaiveIndex(sorted)

        def now(self, answer: Coroutine[Any, Any, T]) -> T:
            return desk.now(answer)

        @invariant()
        def windows_are_the_same(self) -> None:
            assert sorted(self.now(self.index.list_windows())) == sorted(self.naive.windows())

        @invariant()
        def the_sum_is_kept(self) -> None:
            assert int(desk.client.hget(KEYS, "total") or 0) == sum(size for _, _, size, _ in self.naive.windows())

        def teardown(self) -> None:
            assert self.broker.state.last_error == ""

    run_state_machine_as_test(OnRedis, settings=settings(max_examples=60, stateful_step_count=40))


def test_nothing_is_missed(desk: Desk) -> None:
    class OnRedis(NothingIsMissed):
        def __init__(self) -> None:
            super().__init__()
            self.broker = desk.empty_broker(self.WINDOW, self.TOTAL)
            self.index = self.broker.ready_index

        def now(self, answer: Coroutine[Any, Any, T]) -> T:
            return desk.now(answer)

        @rule()
        def time_goes_by(self) -> None:
            for key in desk.client.scan_iter(f"{KEYS}:taken:*"):
                desk.client.delete(key)

        def shown(self, lane: int) -> list[int]:
            row = desk.client.hget(KEYS, str(lane))
            size = int(row.split()[-1]) if row else 0
            known: Any = desk.client.zrange(f"{KEYS}:{lane}", 0, -1)
            return [int(task, 16) for task in known[:size]]

        def teardown(self) -> None:
            assert self.broker.state.last_error == ""

    run_state_machine_as_test(OnRedis, settings=settings(max_examples=60, stateful_step_count=40))
