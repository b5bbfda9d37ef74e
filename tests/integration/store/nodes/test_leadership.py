"""A leader that freezes in the middle of a write neither holds up its successor nor writes afterwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawlfleet.errors import NotLeader, Unavailable
from crawlfleet.model.status import TaskStatus
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.migrate import migrate_postgres
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.postgres.transaction import PostgresTx
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit
from testkit.patience import PATIENCE_S, promised

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

REPLACED_WITHIN_S = 5.0


@pytest.fixture
async def kit(postgres_dsn: str) -> AsyncIterator[Kit]:
    await migrate_postgres(postgres_dsn)
    old, new = (
        SqlStore(await PostgresEngine.connect(postgres_dsn)),
        SqlStore(await PostgresEngine.connect(postgres_dsn)),
    )
    yield await Kit.open(old, new)
    await old.close()
    await new.close()


@pytest.mark.parametrize("writes_more", [False, True])
async def test_a_leader_frozen_inside_a_transaction_is_replaced_and_its_write_fails(
    kit: Kit, writes_more: bool
) -> None:
    term = await kit.term()
    task = await kit.submit_one()
    is_inside, wakes = asyncio.Event(), asyncio.Event()

    async def frozen(tx: Tx) -> None:
        await tx.execute("UPDATE live SET losses = losses + 1 WHERE id = $1", task)
        is_inside.set()
        await wakes.wait()
        if writes_more:
            await tx.execute("UPDATE live SET losses = losses + 1 WHERE id = $1", task)

    old = kit.store
    assert isinstance(old, SqlStore)
    writing = asyncio.ensure_future(old.engine.write(frozen, term))
    await is_inside.wait()
    async with asyncio.timeout(promised(REPLACED_WITHIN_S)):
        assert await kit.second.campaign("successor", await kit.second.read_leader(), kit.now) == term + 1
    wakes.set()
    with pytest.raises(Unavailable):
        await writing
    assert (await kit.live(task)).losses == 0
    with pytest.raises(NotLeader):
        await old.change_tasks([task], task_state_machine.cancel_task("too late"), kit.now, term)
    applied = await kit.second.change_tasks([task], task_state_machine.cancel_task("the new leader"), kit.now, term + 1)
    assert applied.after == {task: TaskStatus.CANCELLED}


async def test_a_leader_frozen_in_the_middle_of_a_copy_is_replaced_and_its_write_fails(kit: Kit) -> None:
    """The server waits for rows then, which counts neither as idle nor as a statement that takes too long."""
    term = await kit.term()
    task = await kit.submit_one()
    is_inside, wakes = asyncio.Event(), asyncio.Event()

    async def rows() -> AsyncIterator[bytes]:
        yield b""
        is_inside.set()
        await wakes.wait()

    async def frozen(tx: Tx) -> None:
        assert isinstance(tx, PostgresTx)
        await tx.execute("UPDATE live SET losses = losses + 1 WHERE id = $1", task)
        await tx._connection.copy_to_table("outbox", source=rows(), columns=["at", "count", "body"])

    old = kit.store
    assert isinstance(old, SqlStore)
    writing = asyncio.ensure_future(old.engine.write(frozen, term))
    await is_inside.wait()
    async with asyncio.timeout(promised(REPLACED_WITHIN_S)):
        assert await kit.second.campaign("successor", await kit.second.read_leader(), kit.now) == term + 1
    wakes.set()
    with pytest.raises(Unavailable):
        await writing
    assert (await kit.live(task)).losses == 0


async def test_a_leader_that_only_beats_is_not_in_the_way_of_its_own_writes(kit: Kit) -> None:
    """A beat changes the row that every write of the leader holds on to, and need not wait for any of them."""
    term = await kit.term()
    old = kit.store
    assert isinstance(old, SqlStore)
    is_inside, wakes = asyncio.Event(), asyncio.Event()

    async def long(tx: Tx) -> None:
        is_inside.set()
        await wakes.wait()

    writing = asyncio.ensure_future(old.engine.write(long, term))
    await is_inside.wait()
    async with asyncio.timeout(promised(1)):
        assert await old.record_beat(term)
        await old.fold_counters(term)
    wakes.set()
    await writing


async def test_a_successor_waits_for_a_write_that_was_first_and_finds_it_done(kit: Kit) -> None:
    term = await kit.term()
    task = await kit.submit_one()
    old = kit.store
    assert isinstance(old, SqlStore)
    is_inside, wakes = asyncio.Event(), asyncio.Event()

    async def slow(tx: Tx) -> None:
        await tx.execute("UPDATE live SET losses = 7 WHERE id = $1", task)
        is_inside.set()
        await wakes.wait()

    writing = asyncio.ensure_future(old.engine.write(slow, term))
    await is_inside.wait()
    campaign = asyncio.ensure_future(kit.second.campaign("successor", await kit.second.read_leader(), kit.now))
    await _until_it_waits(kit)
    assert not campaign.done()
    wakes.set()
    await writing
    assert await campaign == term + 1
    assert (await kit.live(task)).losses == 7


async def _until_it_waits(kit: Kit) -> None:
    sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(PATIENCE_S):
        while not await kit.second.engine.read(lambda tx: tx.fetch(sql)):
            pass
