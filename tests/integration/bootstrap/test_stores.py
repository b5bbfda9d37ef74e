"""Opening a store by its address."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import asyncpg
import pytest

from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError, StoreUnavailable
from testkit.patience import PATIENCE_S

HOLD = """
import asyncio, sys
from crawlfleet.bootstrap.stores import open_store
async def main():
    store = await open_store(sys.argv[1], is_only_master=True)
    print("open", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_a_second_master_on_one_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'fleet.db'}"
    store = await open_store(address)
    with pytest.raises(ConfigError, match=r"fleet\.db is in use by process \d+.*PostgreSQL"):
        await open_store(address)
    await store.close()
    again = await open_store(address)
    assert (await again.read_leader()).term == 0
    await again.close()


async def test_a_master_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'fleet.db'}"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, address, stdin=PIPE, stdout=PIPE)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"open\n"
    with pytest.raises(ConfigError):
        await open_store(address)
    holder.kill()
    await holder.communicate()
    store = await open_store(address)
    await store.close()


@pytest.mark.postgres
async def test_postgres_is_migrated_when_it_is_opened(postgres_dsn: str) -> None:
    store = await open_store(postgres_dsn)
    assert (await store.read_leader()).term == 0
    await store.close()


@pytest.mark.postgres
async def test_masters_that_cannot_wake_one_another_do_not_share_a_database(postgres_dsn: str) -> None:
    store = await open_store(postgres_dsn, is_only_master=True)
    with pytest.raises(ConfigError, match=r"^broker: memory: .*another one.*--broker redis://"):
        await open_store(postgres_dsn, is_only_master=True)
    with pytest.raises(ConfigError, match=r"^broker: memory: .*one with it.*--broker redis://"):
        await open_store(postgres_dsn)
    await store.close()
    # Those that share a broker may share it.
    one, other = await open_store(postgres_dsn), await open_store(postgres_dsn)
    assert (await other.read_leader()).term == 0
    with pytest.raises(ConfigError, match=r"^broker: memory: .*another one"):
        await open_store(postgres_dsn, is_only_master=True)
    await one.close()
    await other.close()
    again = await open_store(postgres_dsn, is_only_master=True)
    await again.close()


@pytest.mark.postgres
async def test_a_master_that_was_killed_holds_no_lock_of_the_database(postgres_dsn: str) -> None:
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, postgres_dsn, stdin=PIPE, stdout=PIPE)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"open\n"
    holder.kill()
    opening = asyncio.create_task(open_store(postgres_dsn, is_only_master=True))
    await holder.communicate()
    async with asyncio.timeout(PATIENCE_S):
        store = await opening
    await store.close()


@pytest.mark.postgres
async def test_a_lock_that_the_server_let_go_is_taken_again(postgres_dsn: str) -> None:
    store = await open_store(postgres_dsn, is_only_master=True)
    admin = await asyncpg.connect(postgres_dsn)
    held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
    try:
        first = await admin.fetchval(held)
        await admin.execute("SELECT pg_terminate_backend($1)", first)
        async with asyncio.timeout(PATIENCE_S):
            while await admin.fetchval(held) in (None, first):  # noqa: ASYNC110  a server tells nobody
                await asyncio.sleep(0.05)
    finally:
        await admin.close()
    with pytest.raises(ConfigError):
        await open_store(postgres_dsn, is_only_master=True)
    await store.close()


@pytest.mark.parametrize("address", ["mysql://x", "sqlite:///", "fleet.db", "sqlite:////no/such/folder/fleet.db"])
async def test_an_address_that_is_none_names_the_setting(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^store: "):
        await open_store(address)


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        await open_store("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.postgres
async def test_what_no_waiting_mends_names_the_setting(postgres_dsn: str) -> None:
    server, _, name = postgres_dsn.rpartition("/")
    admin = await asyncpg.connect(postgres_dsn)
    try:
        await admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        await admin.execute("DROP ROLE IF EXISTS onlooker; CREATE ROLE onlooker LOGIN")
        with pytest.raises(ConfigError, match=r"^store: .*missing"):
            await open_store(f"{server}/missing")
        with pytest.raises(ConfigError, match=r"^store: .*stranger"):
            await open_store(f"{server.replace('postgres@', 'stranger@')}/{name}")
        with pytest.raises(ConfigError, match=r"^store: its tables cannot be made: .*permission denied"):
            await open_store(f"{server.replace('postgres@', 'onlooker@')}/{name}")
    finally:
        await admin.execute("DROP ROLE onlooker")
        await admin.close()
