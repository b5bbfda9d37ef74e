"""Query plans on SQLite: with a long history behind it, nothing that masters do all day scans."""

import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite import transaction
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit
from testkit.long_history import statement_constants, use_every_hot_verb, write_history

pytestmark = pytest.mark.integration

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
    "evidence",
    "tick",
    "preemption",
    "parking",
    "day_slice",
}
HISTORY = {"done", "execution", "event_log"}
# One row is enough for these, and the table's own order or an index finds it.
BOUNDED = re.compile(r"LIMIT 1\b")
# Only what nodes hold is in this index, however many tasks there are.
SMALL_INDEX = "ix_live_held"
ALIAS = {"l": "live", "t": "task", "e": "execution", "d": "done", "p": "preemption"}


class OpenEngine(InlineEngine):
    """With its connection in the open, to be listened to."""

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[OpenEngine]:
    path = tmp_path / "fleet.sqlite3"
    migrate_sqlite(path)
    engine = OpenEngine(path)
    yield engine
    await engine.close()


@pytest.fixture
async def kit(engine: OpenEngine) -> Kit:
    store = SqlStore(engine)
    kit = await Kit.open(store, store)
    await write_history(engine, kit.lane, FINISHED)
    return kit


async def test_no_hot_statement_scans_a_table_that_grows(engine: OpenEngine, kit: Kit) -> None:
    said: list[str] = []
    engine.connection.set_trace_callback(said.append)
    await use_every_hot_verb(kit)
    engine.connection.set_trace_callback(None)
    plans = {sql: plan(engine.connection, sql) for sql in {shape(sql): sql for sql in said}.values()}
    assert len(plans) > 60
    scans = {sql: steps for sql, steps in plans.items() if [step for step in steps if is_scan(step, sql)]}
    assert scans == {}


async def test_no_statement_at_the_top_of_a_module_scans_a_table_that_grows(engine: OpenEngine, kit: Kit) -> None:
    statements = {name: transaction.render_sql(sql) for name, sql in statement_constants(transaction).items()}
    assert len(statements) > 30
    plans = {name: plan(engine.connection, sql) for name, sql in statements.items()}
    scans = {name: steps for name, steps in plans.items() if [s for s in steps if is_scan(s, statements[name])]}
    assert scans == {}


async def test_the_watch_on_plans_sees_a_scan(engine: OpenEngine, kit: Kit) -> None:
    for sql in (
        "SELECT * FROM done WHERE ended_at < 5",
        "SELECT id FROM live l WHERE timeout_s = 1",
        "UPDATE execution SET message = NULL WHERE node = 3",
    ):
        assert [step for step in plan(engine.connection, sql) if is_scan(step, sql)], sql


HOT: dict[str, Callable[[Kit], Awaitable[object]]] = {
    "add": lambda kit: kit.submit(3),
    "renew": lambda kit: kit.node(),
    "ready": lambda kit: kit.store.ready_heads(kit.lane.id, 100),
    "look": lambda kit: kit.store.placement_view(),
}


@pytest.mark.parametrize("verb", HOT)
async def test_the_hot_path_does_not_touch_history(engine: OpenEngine, kit: Kit, verb: str) -> None:
    touched = listen(engine.connection)
    await HOT[verb](kit)
    assert touched
    assert not {(action, table) for action, table in touched if table in HISTORY}


async def test_assigning_does_not_touch_history(engine: OpenEngine, kit: Kit) -> None:
    node, tasks = await kit.node(), await kit.submit(3)
    touched = listen(engine.connection)
    await kit.assign(tasks, node)
    assert ("update", "live") in touched
    assert not {(action, table) for action, table in touched if table in HISTORY}


async def test_completing_only_adds_to_history(engine: OpenEngine, kit: Kit) -> None:
    runs = await kit.run(await kit.node(), 3)
    touched = listen(engine.connection)
    await kit.complete(*runs)
    assert {(action, table) for action, table in touched if table in HISTORY and action != "read"} == {
        ("insert", "done"),
    }
    assert ("read", "done") not in touched
    assert ("read", "event_log") not in touched


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    if sql.split(None, 1)[0].upper() not in {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}:
        return []
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    arguments = [None] * (max(numbered) if numbered else sql.count("?"))
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]


def is_scan(step: str, sql: str) -> bool:
    if not step.startswith("SCAN ") or SMALL_INDEX in step:
        return False
    name = step.split()[1]
    table = name if name in schema.metadata.tables else ALIAS.get(name, name)
    return table in GROWING and not BOUNDED.search(sql)


def shape(sql: str) -> str:
    """The statement without its values."""
    return re.sub(r"'[^']*'|\b\d+\b", "?", sql)


ACTIONS = {
    sqlite3.SQLITE_READ: "read",
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}


def listen(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """What statements prepared from now on do to which tables. Setting it makes every statement be prepared anew."""
    touched: set[tuple[str, str]] = set()

    def note(action: int, table: str | None, *_: object) -> int:
        if action in ACTIONS and table is not None:
            touched.add((ACTIONS[action], table))
        return sqlite3.SQLITE_OK

    connection.set_authorizer(note)
    return touched
