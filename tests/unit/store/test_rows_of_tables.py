"""Rows against the tables' description: a column that is added, moved or renamed is noticed here.

The hot statements are written by hand: their rows are compared with what the codecs make.
"""

import importlib
import pkgutil
import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.schema import CreateTable

from crawlfleet import store
from crawlfleet.model.execution import Outcome
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import FinalTask, LiveTask
from crawlfleet.ports.task_store import Assignment
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.postgres import transaction as postgres
from crawlfleet.store.engine.sqlite.transaction import SqliteTx
from crawlfleet.store.engine.transaction import ASSIGN_COLUMNS, COMPLETE_COLUMNS, MOVED_COLUMNS, PENDING_COLUMNS
from crawlfleet.store.row_codec import RowCodec

NOT_IN_RECORDS = {
    "audit": {"id"},
    "day_slice": {"task"},
    "done": {"session", "result", "metrics"},
    "lane": {"task_type", "unused_mark"},
    "parking": {"task", "at"},
    "preemption": {"at"},
    "product_change": {"product"},
    "project": {"is_metered"},
    "token": {"secret_hash"},
}
"""Columns that the store fills beside the record of a table."""

NOW = 1_000


def codecs() -> Iterator[RowCodec[object]]:
    for module in pkgutil.walk_packages(store.__path__, f"{store.__name__}."):
        if ".migrations" not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, RowCodec):
                    yield value


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    dialect = create_engine("sqlite://").dialect
    connection = sqlite3.connect(":memory:")
    for table in (schema.live, schema.done):
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
    yield connection
    connection.close()


def rows(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> list[tuple[object, ...]]:
    return connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id").fetchall()


def test_every_column_of_a_table_is_in_its_record_or_named_here() -> None:
    found = {codec.table.name: set(codec.table.columns.keys()) - set(codec.columns) for codec in codecs()}
    assert {name: missing for name, missing in found.items() if missing} == NOT_IN_RECORDS


def test_rows_of_executions_and_dead_letters_have_all_columns_in_order() -> None:
    assert task_rows.ExecutionRow._fields == tuple(schema.execution.columns.keys())
    assert task_rows.DeadLetterRow._fields == tuple(schema.dead_letter.columns.keys())


def test_completed_tasks_have_all_columns() -> None:
    assert set(task_rows.COMPLETED_COLUMNS) == set(schema.done.columns.keys())


def test_batches_of_the_hot_verbs_have_the_order_of_their_records() -> None:
    assert Assignment._fields == ASSIGN_COLUMNS
    assert set(COMPLETE_COLUMNS) <= set(Outcome._fields)
    assert set(PENDING_COLUMNS) | set(MOVED_COLUMNS) <= set(schema.live.columns.keys())


def test_postgres_unnests_batches_in_that_order() -> None:
    assert "AS a(id, lane, execution, node, session)" in postgres.ASSIGN
    assert f"AS a({', '.join(PENDING_COLUMNS)})" in postgres.ADD_PENDING_MEMBERS
    assert f"AS a({', '.join(PENDING_COLUMNS[:-1])})" in postgres.ADD_PENDING
    assert "AS s(id, execution, node, told_at, result, metrics)" in postgres.COMPLETE
    assert postgres.COMPLETE.endswith(f"SELECT {', '.join(MOVED_COLUMNS)} FROM taken")


def test_both_databases_make_the_same_new_row() -> None:
    source = {name: f"a.{name}" for name in PENDING_COLUMNS}
    members = task_rows.new_live_values(**source, ready_at="$5::bigint")
    assert members in postgres.ADD_PENDING_MEMBERS
    others = task_rows.new_live_values(**source | {"group_id": "NULL"}, ready_at="$4::bigint")
    assert others in postgres.ADD_PENDING


async def test_a_pending_task_is_written_as_a_new_live_row(tables: sqlite3.Connection) -> None:
    await SqliteTx(tables).add_pending([(1, 2, 60, 4), (5, 2, 60, None)], 9)
    new = [LiveTask.new(1, 2, 60, group=4, ready_at=9), LiveTask.new(5, 2, 60, ready_at=9)]
    assert rows(tables, "live", task_rows.LIVE_COLUMNS) == task_rows.LIVE.to_rows(new)


async def test_an_assigned_task_has_the_columns_of_its_assignment(tables: sqlite3.Connection) -> None:
    tx = SqliteTx(tables)
    await tx.add_pending([(1, 2, 60, None)], 9)
    assert await tx.assign_tasks([Assignment(task=1, lane=2, execution=30, node=40, session=50)], NOW) == [1]
    (row,) = rows(tables, "live", task_rows.LIVE_COLUMNS)
    live = task_rows.live_task_from_row(row)
    new = LiveTask.new(1, 2, 60, ready_at=9)
    assert live == new._replace(
        status=TaskStatus.ASSIGNED,
        execution=30,
        node=40,
        session=50,
        assigned_at=NOW,
        deadline_at=live.deadline_at,
    )
    assert task_rows.LIVE.from_row(row) == live


async def test_a_completed_task_is_written_as_its_final_row(tables: sqlite3.Connection) -> None:
    numbers = range(1, len(LiveTask._fields) + 1)
    live = LiveTask._make(numbers)._replace(status=TaskStatus.PROCESSING, recall=task_rows.RECALLS[0])
    await SqliteTx(tables).insert(schema.live, task_rows.LIVE_COLUMNS, [task_rows.LIVE.to_row(live)])
    outcome = (live.id, live.execution, live.node, None, b"{}", b"[]")
    (moved,) = await SqliteTx(tables).complete_tasks([outcome], NOW)
    assert moved == tuple(getattr(live, {"group_id": "group"}.get(name, name)) for name in MOVED_COLUMNS)
    (row,) = rows(tables, "done", task_rows.COMPLETED_COLUMNS)
    final = FinalTask.from_live(live._replace(status=TaskStatus.COMPLETED), None, NOW)
    assert row == (*task_rows.DONE.to_row(final), live.session, b"{}", b"[]")
    assert rows(tables, "live", ("id",)) == []
