"""Query plans on PostgreSQL: with a long history behind it, nothing that masters do all day scans."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import asyncpg
import pytest
from sqlalchemy import Select, Table
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from crawlfleet.store.migrate import migrate_postgres
from crawlfleet.store.postgres import tx as postgres
from crawlfleet.store.postgres.engine import PostgresEngine
from crawlfleet.store.query import compiled
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tx import Row, Tx
from crawlfleet.testing.factories import Kit
from crawlfleet.testing.long_history import statement_constants, use_every_hot_verb, write_history

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

T = TypeVar("T")
Plan = dict[str, Any]

FINISHED = 50_000
GROWING = {
    "task", "live", "done", "execution", "event_log", "dependency", "dead_letter", "idempotency", "heartbeat", "lane",
}  # fmt: skip
HISTORY = ("done", "execution", "event_log")
# Only what nodes hold is in this index, however many tasks there are.
SMALL_INDEX = "ix_live_held"
# Counting rows is for checks; it says so.
SLOW = {"crawlfleet.store.upkeep._COUNTED", "crawlfleet.store.upkeep._TOTALS"}


class NotingTx:
    """A transaction that keeps what is said to the server."""

    def __init__(self, tx: Tx, said: set[str]) -> None:
        self._tx = tx
        self._said = said

    async def fetch(self, sql: str, *args: Any) -> Sequence[Row]:
        self._said.add(postgres.render(sql))
        return await self._tx.fetch(sql, *args)

    async def execute(self, sql: str, *args: Any) -> int:
        self._said.add(postgres.render(sql))
        return await self._tx.execute(sql, *args)

    async def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._said.add(postgres.insert_sql(table.name, tuple(columns)))
        await self._tx.insert(table, columns, rows)

    async def insert_new(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._said.add(postgres.insert_sql(table.name, tuple(columns), is_new=True))
        await self._tx.insert_new(table, columns, rows)

    async def update(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._said.add(postgres.update_sql(table.name, tuple(columns)))
        await self._tx.update(table, columns, rows)

    def __getattr__(self, name: str) -> Any:
        """What is hot has statements of its own, at the top of the dialect's module."""
        return getattr(self._tx, name)


class NotingEngine:
    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine
        self.said: set[str] = set()

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        return await self._engine.write(lambda tx: work(NotingTx(tx, self.said)), term)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._engine.read(lambda tx: work(NotingTx(tx, self.said)))

    async def query(self, query: Select[Any]) -> Sequence[Row]:
        sql, args = compiled(query, asyncpg_dialect())  # type: ignore[no-untyped-call]
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
    engine.said.clear()
    return kit


async def test_no_hot_statement_scans_a_table_that_grows(engine: NotingEngine, kit: Kit) -> None:
    await use_every_hot_verb(kit)
    statements = {sql: sql for sql in engine.said}
    statements |= {name: postgres.render(sql) for name, sql in statement_constants(postgres).items()}
    assert len(statements) > 80
    plans = {name: await plan(engine, sql) for name, sql in statements.items() if name not in SLOW}
    found = {name: list(scans(tree)) for name, tree in plans.items()}
    assert not {name: bad for name, bad in found.items() if bad}


async def test_the_watch_on_plans_sees_a_scan(engine: NotingEngine, kit: Kit) -> None:
    for sql in ("SELECT * FROM done WHERE ended_at < $1", "SELECT id FROM live WHERE timeout_s = $1",
                "UPDATE execution SET message = NULL WHERE node = $1", "SELECT MAX(id) FROM done WHERE id + 0 > $1",
                "SELECT id FROM task ORDER BY id"):  # fmt: skip
        assert list(scans(await plan(engine, sql))), sql


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


async def plan(engine: NotingEngine, sql: str) -> Plan:
    """The generic plan, which is the one that is used, under the settings of our own connections."""
    count = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
    arguments = f"({', '.join(['NULL'] * count)})" if count else ""

    async def explain(tx: Tx) -> Plan:
        await tx.fetch(f"PREPARE looked_at AS {sql}")
        ((text,),) = await tx.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE looked_at{arguments}")
        await tx.fetch("DEALLOCATE looked_at")
        tree: Plan = json.loads(text)[0]["Plan"]
        return tree

    return await engine.write(explain)


def scans(node: Plan, *, is_bounded: bool = False) -> Iterator[str]:
    """Steps that look at a whole table, or at a whole index of it, with no limit above them."""
    is_bounded = is_bounded or node["Node Type"] == "Limit"
    table = node.get("Relation Name")
    if table in GROWING and node.get("Index Name") != SMALL_INDEX:
        is_whole = node["Node Type"].endswith("Scan") and "Index Cond" not in node and "TID Cond" not in node
        if node["Node Type"] == "Seq Scan" or (is_whole and "Index Name" in node and not is_bounded):
            yield f"{node['Node Type']} of {table} by {node.get('Index Name')}"
    for inner in node.get("Plans", ()):
        yield from scans(inner, is_bounded=is_bounded)


async def lookups(engine: NotingEngine, dsn: str) -> list[Row]:
    """How often each table of history was searched so far."""
    # Figures are handed in when a connection is at rest, at the latest when asked to.
    await engine.read(lambda tx: tx.fetch("SELECT pg_stat_force_next_flush()"))
    await engine.read(lambda tx: tx.fetch("SELECT 1"))
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
