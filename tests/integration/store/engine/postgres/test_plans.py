"""Query plans on PostgreSQL: with a long history behind it, nothing that masters do all day scans."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg
import pytest
from sqlalchemy import Select, Table
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from crawlfleet.store.engine.migrate import migrate_postgres
from crawlfleet.store.engine.postgres import transaction as postgres
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import PAGE_BYTES, RowPage, Sift, compile_query
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit
from testkit.long_history import use_every_hot_verb, write_history

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

T = TypeVar("T")
Plan = dict[str, Any]

FINISHED = 50_000
GROWING = {
    "task",
    "live",
    "done",
    "execution",
    "event_log",
    "dependency",
    "dead_letter",
    "idempotency",
    "heartbeat",
    "lane",
    "audit",
    "tick",
    "preemption",
    "parking",
    "day_slice",
}
HISTORY = ("done", "execution", "event_log")
# Only what nodes hold is in this index, however many tasks there are.
SMALL_INDEX = "ix_live_held"
BURST, BATCH = 20_000, 200


class NotingTx:
    """A transaction that keeps how the server means to do what it is told."""

    def __init__(self, tx: Tx, plans: dict[str, Plan]) -> None:
        self._tx = tx
        self._plans = plans

    async def _note(self, sql: str, *args: Any) -> None:
        # As in life: planned under our own settings, for these arguments and for the tables as they are.
        if sql.split(None, 1)[0] in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}:
            ((text,),) = await self._tx.fetch(f"EXPLAIN (FORMAT JSON) {sql}", *args)
            self._plans[sql] = json.loads(text)[0]["Plan"]

    async def fetch(self, sql: str, *args: Any) -> Sequence[Row]:
        await self._note(sql, *args)
        return await self._tx.fetch(sql, *args)

    async def execute(self, sql: str, *args: Any) -> int:
        await self._note(sql, *args)
        return await self._tx.execute(sql, *args)

    async def update(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            await self._note(postgres.update_sql(table.name, tuple(columns)), *_columns(rows))
        await self._tx.update(table, columns, rows)

    async def assign_tasks(self, rows: Sequence[Row], now: int) -> list[int]:
        await self._note(postgres.ASSIGN, *_columns(rows), now, now)
        return await self._tx.assign_tasks(rows, now)

    async def complete_tasks(self, rows: Sequence[Row], now: int) -> Sequence[Row]:
        await self._note(postgres.COMPLETE, *_columns(rows), now)
        return await self._tx.complete_tasks(rows, now)

    def __getattr__(self, name: str) -> Any:
        """What only inserts."""
        return getattr(self._tx, name)


def _columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


class NotingEngine:
    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self.plans: dict[str, Plan] = {}

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        return await self._engine.write(lambda tx: work(NotingTx(tx, self.plans)), term)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._engine.read(lambda tx: work(NotingTx(tx, self.plans)))

    read_by_key = browse_rows = read

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        page = RowPage(limit, max_bytes, sift)
        all(page.add_row(row) for row in await self.run_query(query))
        return page

    async def wall_clock(self) -> int | None:
        return await self._engine.wall_clock()

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compile_query(query, asyncpg_dialect())  # type: ignore[no-untyped-call]
        return await self.read(lambda tx: tx.fetch(sql, *args))

    async def close(self) -> None:
        await self._engine.close()


@pytest.fixture
async def dsn(postgres_dsn: str) -> str:
    await migrate_postgres(postgres_dsn)
    return postgres_dsn


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[NotingEngine]:
    engine = NotingEngine(await PostgresEngine.connect(dsn))
    yield engine
    await engine.close()


@pytest.fixture
async def kit(engine: NotingEngine, dsn: str) -> Kit:
    store = SqlStore(engine)
    kit = await Kit.open(store, store)
    await write_history(engine, kit.lane, FINISHED)
    await ask(dsn, "ANALYZE")
    engine.plans.clear()
    return kit


async def test_no_hot_statement_scans_a_table_that_grows(engine: NotingEngine, kit: Kit) -> None:
    await use_every_hot_verb(kit)
    assert len(engine.plans) > 50
    found = {sql: list(scans(tree)) for sql, tree in engine.plans.items()}
    assert not {sql: bad for sql, bad in found.items() if bad}


async def test_the_watch_on_plans_sees_a_scan(engine: NotingEngine, kit: Kit) -> None:
    for sql in (
        "SELECT * FROM done WHERE ended_at < 5",
        "SELECT id FROM live WHERE timeout_s = 1",
        "UPDATE execution SET message = NULL WHERE node = 3",
        "SELECT id FROM task ORDER BY id",
    ):
        await engine.write(lambda tx, sql=sql: tx.execute(sql))  # type: ignore[misc]
        assert list(scans(engine.plans[sql])), sql


@pytest.fixture
async def single(dsn: str) -> AsyncIterator[PostgresEngine]:
    engine = await PostgresEngine.connect(dsn, connections=1)
    yield engine
    await engine.close()


@pytest.mark.parametrize(
    "looked",
    [
        pytest.param("SELECT 1", id="before it"),
        pytest.param("ANALYZE live", id="after it"),
        # As vacuum leaves it when the burst was on its way: pages, and nothing in them.
        pytest.param("UPDATE pg_class SET reltuples = 0 WHERE relname = 'live'", id="while it came"),
    ],
)
async def test_a_burst_after_a_quiet_time_is_not_read_through_for_every_batch(
    single: PostgresEngine, dsn: str, looked: str
) -> None:
    """Whatever the server believes of the table, and whenever it looked at it last."""
    store = SqlStore(single)
    kit = await Kit.open(store, store)
    node = await kit.node()
    for _ in range(10):
        await kit.complete(*await kit.assign(await kit.submit(10), node))
    await ask(dsn, "VACUUM ANALYZE live")
    await kit.complete(*await kit.assign(await kit.submit(10), node))
    burst = await kit.submit(BURST)
    await ask(dsn, looked)
    before = await entries_read(single, dsn)
    runs = await kit.assign(burst[:BATCH], node)
    await kit.complete(*runs)
    await kit.cancel(*burst[BATCH : 2 * BATCH])
    assert await entries_read(single, dsn) - before < 20 * BATCH


async def test_the_hot_path_only_adds_to_history(engine: NotingEngine, kit: Kit, dsn: str) -> None:
    node = await kit.node()
    before = await lookups(engine, dsn)
    for _ in range(3):
        runs = await kit.assign(await kit.submit(5), node)
        await kit.renew(node)
        await kit.store.ready_heads(kit.lane.id, 100)
        await kit.store.placement_view()
        await kit.complete(*runs)
    assert await lookups(engine, dsn) == before


def scans(node: Plan, *, is_bounded: bool = False) -> Iterator[str]:
    """Steps that look at a whole table, or at a whole index of it, with no limit above them."""
    is_bounded = is_bounded or node["Node Type"] == "Limit"
    index, table = node.get("Index Name"), node.get("Relation Name")
    grows = table in GROWING or (index is not None and index.split("_")[1] in GROWING)
    is_whole = index is not None and index != SMALL_INDEX and "Index Cond" not in node and not is_bounded
    if grows and (is_whole or node["Node Type"] == "Seq Scan"):
        yield f"{node['Node Type']} of {table} by {index}"
    for inner in node.get("Plans", ()):
        yield from scans(inner, is_bounded=is_bounded)


async def entries_read(engine: PostgresEngine, dsn: str) -> int:
    """Of the indexes of `live`."""
    await _flush_figures(engine)
    sql = "SELECT SUM(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'live'"
    return int((await ask(dsn, sql))[0][0])


async def _flush_figures(engine: PostgresEngine | NotingEngine) -> None:
    """A connection hands them in when it is at rest, at the latest when asked to."""
    await engine.read(lambda tx: tx.fetch("SELECT pg_stat_force_next_flush()"))
    await engine.read(lambda tx: tx.fetch("SELECT 1"))


async def lookups(engine: NotingEngine, dsn: str) -> list[Row]:
    """How often each table of history was searched so far."""
    await _flush_figures(engine)
    names = ", ".join(f"'{name}'" for name in HISTORY)
    sql = (
        f"SELECT relname, seq_scan, idx_scan, n_tup_del FROM pg_stat_user_tables WHERE relname IN ({names}) ORDER BY 1"
    )
    return [tuple(row) for row in await ask(dsn, sql)]


async def ask(dsn: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()
