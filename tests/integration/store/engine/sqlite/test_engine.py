"""The SQLite engine: group commit, durability, and what happens when the disk is full."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.errors import InvariantBroken, NotLeader, StoreUnavailable
from crawlfleet.model.status import TaskStatus
from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import SqliteEngine, commit_group, open_connection
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit

pytestmark = pytest.mark.integration

QUEUE_COLUMNS = ("name", "is_paused", "changed_at")


class Oops(Exception):
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path)
    yield engine
    await engine.close()


def queues(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM queue")}


async def put(tx: Tx, *names: str) -> None:
    await tx.insert(schema.queue, QUEUE_COLUMNS, [(name, 0, 0) for name in names])


async def put_and_fail(tx: Tx, name: str) -> None:
    await put(tx, name)
    raise Oops(name)


def test_one_that_fails_takes_nobody_of_its_group_with_it(path: Path) -> None:
    connection = open_connection(path, synchronous="OFF")
    outcomes = commit_group(
        connection,
        [
            (lambda tx: put(tx, "first"), None),
            (lambda tx: put_and_fail(tx, "raised"), None),
            (lambda tx: put(tx, "new", "first"), None),
            (lambda tx: put(tx, "under an older term"), 7),
            (lambda tx: put(tx, "last"), None),
        ],
    )
    connection.close()
    assert [type(outcome) for outcome in outcomes] == [type(None), Oops, InvariantBroken, NotLeader, type(None)]
    assert queues(path) == {"first", "last"}


def test_a_group_is_one_commit(path: Path) -> None:
    connection = open_connection(path, synchronous="OFF")
    said: list[str] = []
    connection.set_trace_callback(said.append)
    commit_group(connection, [(lambda tx, name=f"q{n}": put(tx, name), None) for n in range(20)])  # type: ignore[misc]
    connection.close()
    assert said.count("COMMIT") == 1
    assert len(queues(path)) == 20


async def test_what_arrives_while_a_commit_is_under_way_shares_the_next(engine: SqliteEngine, path: Path) -> None:
    is_inside, may_go_on = threading.Event(), threading.Event()
    groups: list[int] = []

    async def hold_up(tx: Tx) -> None:
        is_inside.set()
        may_go_on.wait(30)
        await put(tx, "held up")

    async def note(tx: Tx, name: str) -> None:
        await put(tx, name)
        groups.append((await tx.fetch("SELECT COUNT(*) FROM queue"))[0][0])
        if name == "q3":
            raise Oops

    first = asyncio.ensure_future(engine.write(hold_up))
    await asyncio.to_thread(is_inside.wait)
    names = [f"q{n}" for n in range(10)]
    others = [asyncio.ensure_future(engine.write(lambda tx, name=name: note(tx, name))) for name in names]  # type: ignore[misc]
    stale = asyncio.ensure_future(engine.write(lambda tx: put(tx, "stale"), 7))
    # One turn of the loop, so that all of them have been handed over.
    await engine.read(lambda tx: tx.fetch("SELECT 1"))
    assert queues(path) == set()
    may_go_on.set()
    answers = await asyncio.gather(first, *others, stale, return_exceptions=True)
    assert [n for n, answer in enumerate(answers) if isinstance(answer, Oops)] == [4]
    assert isinstance(answers[-1], NotLeader)
    assert queues(path) == {"held up", *names} - {"q3"}
    # In a transaction of its own, the failed one would not be missing from the counts before it was undone.
    assert groups == [2, 3, 4, 5, 5, 6, 7, 8, 9, 10]


async def test_a_transaction_cannot_wait_for_anything_outside_it(engine: SqliteEngine, path: Path) -> None:
    async def work(tx: Tx) -> None:
        await put(tx, "waiting")
        await asyncio.sleep(0)

    with pytest.raises(InvariantBroken):
        await engine.write(work)
    assert queues(path) == set()


async def test_the_writer_waits_for_the_disk(engine: SqliteEngine) -> None:
    full = 2
    assert await engine.write(lambda tx: tx.fetch("PRAGMA synchronous")) == [(full,)]
    assert await engine.write(lambda tx: tx.fetch("PRAGMA journal_mode")) == [("wal",)]


async def test_what_was_answered_is_in_the_files(engine: SqliteEngine, path: Path, tmp_path: Path) -> None:
    """A copy taken while the engine is open, as after a crash, has every answered task."""
    store = SqlStore(engine)
    kit = await Kit.open(store, store)
    tasks = [task for _ in range(20) for task in await kit.submit(5)]
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{tmp_path / 'copy.sqlite3'}{suffix}")
    copy = SqlStore(SqliteEngine(tmp_path / "copy.sqlite3"))
    assert set(await copy.load_tasks(tasks)) == set(tasks)
    assert await copy.task_totals() == await copy.count_rows() == {TaskStatus.PENDING: 100}
    await copy.close()


async def test_a_closed_engine_takes_nothing(path: Path) -> None:
    engine = SqliteEngine(path)
    await engine.close()
    await engine.close()
    with pytest.raises(StoreUnavailable):
        await engine.write(lambda tx: put(tx, "late"))
    with pytest.raises(StoreUnavailable):
        await engine.read(lambda tx: tx.fetch("SELECT 1"))


async def test_closing_answers_what_was_handed_over_before(path: Path) -> None:
    engine = SqliteEngine(path)
    writes = [asyncio.ensure_future(engine.write(lambda tx, n=n: put(tx, f"q{n}"))) for n in range(50)]  # type: ignore[misc]
    await engine.read(lambda tx: tx.fetch("SELECT 1"))
    await engine.close()
    await asyncio.gather(*writes)
    assert len(queues(path)) == 50


async def test_a_full_disk_is_a_refusal_and_space_that_returns_is_used(path: Path) -> None:
    engine = SqliteEngine(path)
    store = SqlStore(engine)
    kit = await Kit.open(store, store)
    kept = await kit.submit(3)
    (pages,) = (await engine.read(lambda tx: tx.fetch("PRAGMA page_count")))[0]
    await engine.write(lambda tx: tx.fetch(f"PRAGMA max_page_count = {pages + 4}"))
    large = b'{"a":"' + b"x" * 500_000 + b'"}'
    answers = await asyncio.gather(
        *(kit.submit(1, parameters=large if n == 5 else b"{}") for n in range(10)), return_exceptions=True
    )
    for answer in answers:
        assert isinstance(answer, StoreUnavailable | list)
        if isinstance(answer, list):
            kept += answer
    assert isinstance(answers[5], StoreUnavailable)
    assert set(await store.load_tasks(kept)) == set(kept)
    assert await store.task_totals() == await store.count_rows() == {TaskStatus.PENDING: len(kept)}
    await engine.write(lambda tx: tx.fetch(f"PRAGMA max_page_count = {pages + 10_000}"))
    kept += await kit.submit(1, parameters=large)
    assert await store.task_totals() == await store.count_rows() == {TaskStatus.PENDING: len(kept)}
    await engine.close()


async def test_a_file_that_is_no_database_is_said_to_be_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite3"
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreUnavailable):
        migrate_sqlite(path)
