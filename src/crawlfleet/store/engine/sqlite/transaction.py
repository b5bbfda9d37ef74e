"""A SQLite transaction. Its coroutines never suspend: see `engine.drive_coroutine`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Table

from crawlfleet.model.status import TaskStatus
from crawlfleet.store import task_rows
from crawlfleet.store.engine.transaction import MOVED_COLUMNS, START_GRACE_MS, Row, replace_clause

_AMONG = re.compile(r"AMONG\(\$(\d+)\)")
_LOCK = re.compile(r" (?:LOCK_ROWS|SHARE_ROWS|SHARE_KEYS)\(\w+\)")
_ARGUMENT = re.compile(r"\$(\d+)")

ASSIGN = (
    f"UPDATE live SET status = {TaskStatus.ASSIGNED:d}, node = ?, session = ?, execution = ?, assigned_at = ?, "
    f"deadline_at = ? + timeout_s * 1000 WHERE id = ? AND status = {TaskStatus.PENDING:d} AND lane = ?"
)
ASSIGNED = "SELECT id, execution FROM live WHERE id IN (SELECT value FROM json_each(?))"
# What the database can copy or repeat by itself is left to it: binding a value from Python costs more than moving a
# row inside the database.
ADD_PENDING = (
    f"INSERT INTO live ({', '.join(task_rows.LIVE_COLUMNS)}) "
    + "SELECT "
    + task_rows.new_live_values(id="value", lane="?2", timeout_s="?3", group_id="?4", ready_at="?5")
    + " FROM json_each(?1)"
)
HELD = f"SELECT {', '.join(MOVED_COLUMNS)} FROM live WHERE id IN (SELECT value FROM json_each(?))"
KEEP_FINAL = (
    f"INSERT INTO done ({', '.join(task_rows.COMPLETED_COLUMNS)}) SELECT "
    + task_rows.completed_values(
        "l.", started_at="COALESCE(l.started_at, {told})", ended_at="?2", result="{result}", metrics="{metrics}"
    )
    + " FROM json_each(?1) said CROSS JOIN live l ON l.id = json_extract(said.value, '$[0]')"
)
DELETE = "DELETE FROM live WHERE id IN (SELECT value FROM json_each(?))"
SEE = "INSERT OR IGNORE INTO crawl_seen (crawl, hash) VALUES (?, ?)"
DELTA = "INSERT INTO figure_delta (at, body) VALUES (?, ?)"
TOLD = "INSERT INTO outbox (at, count, body) VALUES (?, ?, ?)"

_to_json = msgspec.json.Encoder().encode


@lru_cache(maxsize=1024)
def render_sql(sql: str) -> str:
    """Translate a statement into SQLite's dialect."""
    sql = _LOCK.sub("", sql)
    sql = _AMONG.sub(r"IN (SELECT value FROM json_each(?\1))", sql)
    return _ARGUMENT.sub(r"?\1", sql)


@lru_cache(maxsize=256)
def insert_sql(table: str, columns: tuple[str, ...], *, is_new: bool = False) -> str:
    verb = "INSERT OR IGNORE" if is_new else "INSERT"
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


@lru_cache(maxsize=256)
def put_sql(table: Table, columns: tuple[str, ...]) -> str:
    return insert_sql(table.name, columns) + replace_clause(table, columns)


@lru_cache(maxsize=256)
def update_sql(table: str, columns: tuple[str, ...]) -> str:
    key, *others = columns
    return f"UPDATE {table} SET {', '.join(f'{name} = ?{n}' for n, name in enumerate(others, 2))} WHERE {key} = ?1"


class SqliteTx:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *args: Any) -> Sequence[Row]:
        return self._connection.execute(render_sql(sql), [_bind_argument(arg) for arg in args]).fetchall()

    def iterate_rows(self, sql: str, args: Sequence[Any]) -> Generator[Row]:
        """Iterate over rows one by one: rows not asked for are not read."""
        cursor = self._connection.execute(sql, args)
        try:
            yield from cursor
        finally:
            cursor.close()

    async def execute(self, sql: str, *args: Any) -> int:
        return self._connection.execute(render_sql(sql), [_bind_argument(arg) for arg in args]).rowcount

    async def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._connection.executemany(insert_sql(table.name, tuple(columns)), rows)

    async def insert_new(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._connection.executemany(insert_sql(table.name, tuple(columns), is_new=True), rows)

    async def put_rows(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._connection.executemany(put_sql(table, tuple(columns)), rows)

    async def update(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._connection.executemany(update_sql(table.name, tuple(columns)), rows)

    async def add_seen(self, crawl: int, hashes: Sequence[bytes]) -> set[bytes]:
        run = self._connection.execute
        return {key for key in hashes if run(SEE, (crawl, key)).rowcount}

    async def assign_tasks(self, rows: Sequence[Row], now: int) -> list[int]:
        changed = self._connection.executemany(
            ASSIGN,
            [(node, session, run, now, now + START_GRACE_MS, task, lane) for task, lane, run, node, session in rows],
        ).rowcount
        tasks = [row[0] for row in rows]
        if changed == len(rows):
            return tasks
        # Some tasks were not pending any more: the fence that each moved row now carries shows which ones moved.
        executions = dict(self._connection.execute(ASSIGNED, [_to_json(tasks).decode()]).fetchall())
        return [task for task, _, run, _, _ in rows if executions.get(task) == run]

    async def add_pending(self, rows: Sequence[Row], now: int) -> None:
        alike: dict[Row, list[int]] = {}
        for like, same in groupby(rows, key=itemgetter(1, 2, 3)):
            alike.setdefault(like, []).extend(map(itemgetter(0), same))
        for like, tasks in alike.items():
            self._connection.execute(ADD_PENDING, [_to_json(tasks).decode(), *like, now])

    async def complete_tasks(self, rows: Sequence[Row], now: int) -> Sequence[Row]:
        run, fence = self._connection.execute, itemgetter(0, 1, 2)
        wanted = set(map(fence, rows))
        held = run(HELD, [_to_json([row[0] for row in rows]).decode()]).fetchall()
        ours = set(map(fence, held))
        if ours != wanted:
            # Some tasks are not held by this execution and node any more: the others are completed without them.
            held = [row for row in held if row[:3] in wanted]
            rows = [row for row in rows if row[:3] in ours]
        if held:
            self._keep_finals(rows, now)
            run(DELETE, [_to_json([row[0] for row in held]).decode()])
        return held

    def _keep_finals(self, rows: Sequence[Row], now: int) -> None:
        """Insert the final rows. Each value extracted from the JSON costs as much as a row: only columns with values
        are sent."""
        tasks, _, _, told, results, metrics = zip(*rows, strict=True)
        sent: list[Sequence[Any]] = [tasks]
        words = {"told": "NULL", "result": "NULL", "metrics": "NULL"}
        for name, column in (("told", told), ("result", results), ("metrics", metrics)):
            if any(value is not None for value in column):
                read = f"json_extract(said.value, '$[{len(sent)}]')"
                words[name] = read if name == "told" else f"CAST({read} AS BLOB)"
                sent.append(column if name == "told" else [value and value.decode() for value in column])
        body = _to_json(list(zip(*sent, strict=True))).decode()
        self._connection.execute(KEEP_FINAL.format(**words), [body, now])

    async def write_log(self, delta: Row | None, outbox: Row) -> None:
        if delta is not None:
            self._connection.execute(DELTA, delta)
        self._connection.execute(TOLD, outbox)


def _bind_argument(arg: Any) -> Any:
    return _to_json(arg).decode() if isinstance(arg, list) else arg
