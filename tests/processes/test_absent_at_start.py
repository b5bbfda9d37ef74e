"""What a master stands on is absent, wrong or somebody else's when it starts."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import asyncpg
import pytest

from testkit.patience import PATIENCE_S, promised
from testkit.servers import PostgresServer, RedisServer
from testkit.servers.server import free_port
from tests.processes.fleet import Fleet, Process
from tests.processes.masters import MasterAt, readiness

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]

AT_ONCE_S = 5.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Only for its processes."""
    started = _Started(tmp_path)
    yield started
    for process in started.processes:
        for one in reversed(process.tree()):
            one.kill()
        await process.child.wait()


class _Started(Fleet):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.processes: list[Process] = []

    async def begin(self, name: str, *argv: str) -> Process:
        self.processes.append(await self._spawn(name, *argv))
        return self.processes[-1]


async def _says(fleet: Fleet, process: Process, word: str) -> None:
    await fleet.until(lambda: word in process.log.read_text(), f"{process.name} does not say {word}")


async def _ends(process: Process, number: signal.Signals) -> tuple[int, float]:
    began = time.monotonic()
    process.signal(number)
    async with asyncio.timeout(PATIENCE_S):
        return await process.child.wait(), time.monotonic() - began


async def test_a_postgres_that_is_away_is_said_and_waited_for(fleet: _Started, postgres: PostgresServer) -> None:
    dsn = postgres.create_database()
    await asyncio.to_thread(postgres.stop)
    place = MasterAt("standalone", fleet.folder, free_port())
    place.process = await fleet.begin(
        "standalone", "standalone", "--data-dir", str(place.data_dir), "--port", str(place.port), "--store", dsn
    )
    await _says(fleet, place.process, "store_away")
    # Whoever asks meanwhile is refused, and may try another master.
    assert await readiness(place) == ""
    await asyncio.to_thread(postgres.start)
    await fleet.until(lambda: _is(place, "ok"), "it has not started")
    code, _ = await _ends(place.process, signal.SIGTERM)
    assert code == 0, place.log()
    assert "Connect" in place.log()
    assert "Traceback" not in place.log()


async def test_who_waits_for_a_postgres_is_stopped_at_once(fleet: _Started) -> None:
    dsn = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    waiting = {
        number: await fleet.begin(kind, kind, "--data-dir", str(fleet.folder / kind), "--port", "0", "--store", dsn)
        for kind, number in (("master", signal.SIGTERM), ("standalone", signal.SIGINT))
    }
    for number, process in waiting.items():
        await _says(fleet, process, "store_away")
        code, took_s = await _ends(process, number)
        said = process.log.read_text()
        assert code == 0, said
        assert took_s < promised(AT_ONCE_S)
        assert f"{process.name}_stopped" in said
        assert "Traceback" not in said


async def test_who_waits_for_a_postgres_that_hangs_says_so_and_is_stopped_at_once(
    fleet: _Started, postgres: PostgresServer
) -> None:
    dsn = postgres.create_database()
    await asyncio.to_thread(postgres.pause)
    try:
        process = await fleet.begin(
            "master", "master", "--data-dir", str(fleet.folder / "master"), "--port", "0", "--store", dsn
        )
        await _says(fleet, process, "store_away")
        code, took_s = await _ends(process, signal.SIGTERM)
    finally:
        await asyncio.to_thread(postgres.resume)
    said = process.log.read_text()
    assert (code, took_s < promised(AT_ONCE_S)) == (0, True), said
    assert "no answer" in said
    assert "Traceback" not in said


async def test_a_redis_that_is_away_is_said_and_taken_when_it_comes(fleet: _Started, postgres: PostgresServer) -> None:
    with RedisServer() as redis:
        await asyncio.to_thread(redis.kill)
        place = MasterAt("master", fleet.folder, free_port())
        place.process = await fleet.begin(
            "master",
            "master",
            "--data-dir",
            str(place.data_dir),
            "--port",
            str(place.port),
            "--store",
            postgres.create_database(),
            "--broker",
            redis.url,
        )
        await fleet.until(lambda: _is(place, "degraded"), "it does not serve without Redis")
        await _says(fleet, place.process, "redis_away")
        await asyncio.to_thread(redis.start)
        await fleet.until(lambda: _is(place, "ok"), "it does not find Redis")
        await _says(fleet, place.process, "redis_back")
        await asyncio.to_thread(redis.kill)
        await fleet.until(lambda: _is(place, "degraded"), "it does not miss Redis")
        code, took_s = await _ends(place.process, signal.SIGINT)
        assert (code, took_s < promised(AT_ONCE_S)) == (0, True), place.log()
        assert "Traceback" not in place.log()


async def test_a_mistake_in_a_setting_ends_it_with_the_setting_named(fleet: _Started, postgres: PostgresServer) -> None:
    good = postgres.create_database()
    name = good.rpartition("/")[2]
    await _lock_up(postgres, good)
    with RedisServer() as foreign:
        with foreign._client() as client:
            client.set("crawlfleet:owner", "somebody-else")
        host = f"127.0.0.1:{postgres.port}"
        mistakes: dict[str, tuple[Sequence[str], Sequence[str]]] = {
            "password": (["--store", f"postgresql://guarded:wrong@{host}/{name}"], ["store: ", "password"]),
            "database": (["--store", f"postgresql://postgres@{host}/missing"], ["store: ", "missing"]),
            "foreign": (["--broker", foreign.url], ["broker: ", "somebody-else", "/1"]),
        }
        runs = []
        for mistake, (options, _) in mistakes.items():
            argv = ["--data-dir", str(fleet.folder / mistake), "--port", "0", *options]
            if "--store" not in options:
                argv += ["--store", good]
            runs.append(fleet.run(mistake, "master", *argv))
        for (mistake, (_, words)), (code, said) in zip(mistakes.items(), await asyncio.gather(*runs), strict=True):
            assert code == 2, f"{mistake}: {said}"
            assert all(word in said for word in ["error: ", *words]), f"{mistake}: {said}"
            assert "wrong" not in said, "secrets are not shown"
            assert "Traceback" not in said, mistake


async def _lock_up(postgres: PostgresServer, dsn: str) -> None:
    """A user with a password."""
    rules = postgres.directory / "data" / "pg_hba.conf"
    kept = await asyncio.to_thread(rules.read_text)
    await asyncio.to_thread(rules.write_text, f"host all guarded 127.0.0.1/32 scram-sha-256\n{kept}")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'; SELECT pg_reload_conf()")
    finally:
        await connection.close()


async def _is(place: MasterAt, word: str) -> bool:
    return await readiness(place) == word
