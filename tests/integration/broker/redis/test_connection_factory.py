"""A Redis that is there and of no use: it is away, in plain words, and nobody sees a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from crawlfleet.broker.redis import RedisBroker
from crawlfleet.broker.redis.connection_factory import ConnectionFactory
from crawlfleet.errors import ConfigError
from testkit.servers import RedisServer
from testkit.servers.server import free_port
from tests.integration.broker.redis.redis_kit import INSTALLATION, Brokers, assert_works_locally, brokers_on, until, use

pytestmark = pytest.mark.integration


class SlowlyLoading(RedisServer):
    """Reads its data slowly when it is started again, and says so meanwhile."""

    def _command(self) -> Sequence[str | Path]:
        return [*super()._command(), "--key-load-delay", "4000", "--rdbcompression", "no"]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Apart from the shared one: these tests stop, pause and kill it."""
    with RedisServer() as server:
        yield server


@pytest.fixture
async def brokers(server: RedisServer) -> AsyncIterator[Brokers]:
    async with brokers_on(server) as brokers:
        yield brokers


async def test_absent_at_the_start_it_is_waited_for() -> None:
    changes: list[tuple[bool, str]] = []
    with capture_logs() as logs:
        broker = await RedisBroker.connect(
            f"redis://127.0.0.1:{free_port()}/0", INSTALLATION, on_change=lambda *change: changes.append(change)
        )
        await assert_works_locally(broker)
        await broker.close()
    assert [line["event"] for line in logs] == ["redis_away"]
    assert "exc_info" not in logs[0] or not logs[0]["exc_info"]
    ((is_up, reason),) = changes
    assert not is_up
    assert "127.0.0.1" in reason


async def test_it_is_told_once_per_change(brokers: Brokers, server: RedisServer) -> None:
    changes: list[tuple[bool, str]] = []

    def note(is_up: bool, reason: str) -> None:
        changes.append((is_up, reason))
        raise ValueError("whoever listens may fail")

    broker = await brokers.one(on_change=note)
    since = broker.state.since
    with capture_logs() as logs:
        server.kill()
        await until(lambda: not broker.state.is_up)
        for _ in range(50):
            await use(broker)
        away_since = broker.state.since
        await asyncio.to_thread(server.start)
        await until(lambda: broker.state.is_up)
        for _ in range(50):
            await use(broker)
    told = [line["event"] for line in logs if line["event"] != "redis_change_not_told"]
    assert told == ["redis_away", "redis_back"]
    assert [is_up for is_up, _ in changes] == [False, True]
    assert since <= away_since <= broker.state.since
    assert f":{server.port}" in broker.state.last_error


async def test_a_wrong_password_is_said_and_not_shown(brokers: Brokers) -> None:
    brokers.client.config_set("requirepass", "right")
    brokers.client.auth("right")
    port = brokers.server.port
    with pytest.raises(ConfigError, match=r"^broker: redis://127.*password") as refused:
        await brokers.one(url=f"redis://:wrong-one@127.0.0.1:{port}/0")
    assert "wrong-one" not in str(refused.value)


async def test_a_password_that_was_changed_later_is_said_and_waited_for(brokers: Brokers) -> None:
    broker = await brokers.one()
    brokers.client.config_set("requirepass", "changed")
    brokers.client.auth("changed")
    brokers.client.client_kill_filter(_type="normal", skipme=True)
    await until(lambda: "password" in broker.state.last_error)
    await assert_works_locally(broker)
    brokers.client.config_set("requirepass", "")
    await until(lambda: broker.state.is_up)


async def test_a_database_that_this_redis_has_not_is_refused(brokers: Brokers) -> None:
    with pytest.raises(ConfigError, match=r"^broker: redis://.*/4711 has no database of this number"):
        await brokers.one(url=brokers.server.url.replace("/0", "/4711"))


Spoil = Callable[[Brokers], object]
SPOILT: list[tuple[Spoil, Spoil, str]] = [
    (
        lambda brokers: brokers.client.config_set("maxmemory", "1"),
        lambda brokers: brokers.client.config_set("maxmemory", "0"),
        "maxmemory",
    ),
    (
        lambda brokers: brokers.client.replicaof("127.0.0.1", str(free_port())),
        lambda brokers: brokers.client.replicaof("NO", "ONE"),
        "replica",
    ),
    (
        lambda brokers: brokers.client.execute_command("ACL SETUSER default -evalsha -eval"),
        lambda brokers: brokers.client.execute_command("ACL SETUSER default +evalsha +eval"),
        "does not allow",
    ),
]


@pytest.mark.parametrize(("spoil", "mend", "said"), SPOILT, ids=[said for *_, said in SPOILT])
async def test_one_that_takes_no_writes_is_away(brokers: Brokers, spoil: Spoil, mend: Spoil, said: str) -> None:
    broker = await brokers.one()
    with capture_logs() as logs:
        spoil(brokers)
        await use(broker)
        await until(lambda: not broker.state.is_up)
        assert said in broker.state.last_error
        await assert_works_locally(broker)
        late = await brokers.one()
        assert said in late.state.last_error
        mend(brokers)
        await until(lambda: broker.state.is_up and late.state.is_up)
    assert [line["event"] for line in logs] == ["redis_away", "redis_away", "redis_back", "redis_back"]


async def test_one_that_is_loading_is_away_until_it_has_its_data() -> None:
    with SlowlyLoading() as server:
        async with brokers_on(server) as brokers:
            broker = await brokers.one()
            # It looks up from its reading every two megabytes.
            brokers.client.mset({f"somebody else's {number}": "x" * 40_000 for number in range(400)})
            brokers.client.save()
            server.kill()
            starting = asyncio.create_task(asyncio.to_thread(server.start))
            await until(lambda: "loading" in broker.state.last_error)
            await use(broker)
            await starting
            await until(lambda: broker.state.is_up)
            assert await broker.is_up()


async def test_no_more_connections_are_opened_than_allowed(brokers: Brokers, server: RedisServer) -> None:
    factory = ConnectionFactory(server.url, max_connections=3)
    async with factory.open_connections(2):
        async with factory.open_connections(1):
            assert brokers.connected() == 3
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05), factory.open_connections(1):
                    raise AssertionError("a fourth connection")
        async with factory.open_connections(1) as (connection,):
            # One that was given back is free again.
            assert connection.is_connected


async def test_a_limit_of_two_is_enough_for_a_master_that_loses_its_redis(
    brokers: Brokers, server: RedisServer
) -> None:
    broker = await brokers.one(max_connections=2)
    assert brokers.connected() == 2
    server.kill()
    await until(lambda: not broker.state.is_up)
    await asyncio.to_thread(server.start)
    await until(lambda: broker.state.is_up)
    await use(broker)


async def test_a_redis_that_does_not_answer_in_time_is_away() -> None:
    async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    connected: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    broker = await RedisBroker.connect(f"redis://127.0.0.1:{port}/0", INSTALLATION, pool_timeout_s=0.2)
    assert broker.failure_reason is not None
    assert "did not answer within 0.2 s" in broker.failure_reason
    await broker.close()
    for writer in connected:
        writer.close()
    silent.close()
