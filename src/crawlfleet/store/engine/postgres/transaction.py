"""A PostgreSQL transaction: batches are sent as arrays, or by COPY.

Plain inserts wait for the next statement: the last one of nearly every transaction, `write_log`, sends them all along
in one round trip.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import dialect as postgresql_dialect

from crawlfleet.model.status import TaskStatus
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.sqlalchemy_query import row_bytes
from crawlfleet.store.engine.transaction import MOVED_COLUMNS, START_GRACE_MS, Row, replace_clause

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

_AMONG = re.compile(r"AMONG\(\$(\d+)\)")
_LOCKS = (
    (re.compile(r"LOCK_ROWS\((\w+)\)"), r"FOR UPDATE OF \1"),
    (re.compile(r"SHARE_ROWS\((\w+)\)"), r"FOR SHARE OF \1"),
    (re.compile(r"SHARE_KEYS\((\w+)\)"), r"FOR KEY SHARE OF \1"),
)
_DIALECT = postgresql_dialect()  # type: ignore[no-untyped-call]
_COPY_FROM = 200
"""Number of rows from which the extra round trips of COPY pay."""
_FIRST_ROWS, _MOST_ROWS, _ROWS_BYTES = 10, 500, 1 << 20
_ARGUMENT = re.compile(r"\$(\d+)")

# Pending is the lowest status: `status < 1` means `status = 0`, written so that the index of pending tasks cannot be
# used for it. After a quiet time the planner takes that index for nearly empty, and would rather read all of it than
# look up each task. `= ANY` repeats the condition of the join: whatever the planner assumes about the table, and
# whichever join it chooses, it looks up these tasks and no others.
ASSIGN = (
    f"UPDATE live SET status = {TaskStatus.ASSIGNED:d}, node = a.node, session = a.session, "
    "execution = a.execution, assigned_at = $6, deadline_at = $7 + timeout_s * 1000::bigint "
    "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) "
    "AS a(id, lane, execution, node, session) "
    f"WHERE live.id = a.id AND live.id = ANY($1) AND live.status < {TaskStatus.PENDING + 1} AND live.lane = a.lane "
    "RETURNING live.id"
)
COMPLETE = (
    "WITH said AS (SELECT * FROM unnest("
    "$1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[]) "
    "AS s(id, execution, node, told_at, result, metrics)), "
    "taken AS (DELETE FROM live l USING said s "
    "WHERE l.id = s.id AND l.id = ANY($1) AND l.execution = s.execution AND l.node = s.node "
    "RETURNING l.*, s.told_at, s.result, s.metrics), "
    f"ended AS (INSERT INTO done ({', '.join(task_rows.COMPLETED_COLUMNS)}) SELECT "
    f"{task_rows.completed_values('', started_at='COALESCE(started_at, told_at)', ended_at='$7::bigint')} FROM taken) "
    f"SELECT {', '.join(MOVED_COLUMNS)} FROM taken"
)


def _add_pending(**types: str) -> str:
    """Build the statement that inserts live rows whose columns of these names are sent as arrays of these types; the
    argument after them is the instant at which they are ready."""
    arrays = ", ".join(f"${n}::{type_}[]" for n, type_ in enumerate(types.values(), 1))
    ready_at = f"${len(types) + 1}::bigint"
    values = task_rows.new_live_values(ready_at=ready_at, **{name: f"a.{name}" for name in types})
    return (
        f"INSERT INTO live ({', '.join(task_rows.LIVE_COLUMNS)}) "
        f"SELECT {values} FROM unnest({arrays}) AS a({', '.join(types)})"
    )


ADD_PENDING = _add_pending(id="bigint", lane="bigint", timeout_s="int")
ADD_PENDING_MEMBERS = _add_pending(id="bigint", lane="bigint", timeout_s="int", group_id="bigint")
SEE = "INSERT INTO crawl_seen (crawl, hash) SELECT $1, unnest($2::bytea[]) ON CONFLICT DO NOTHING RETURNING hash"
OUTBOX = "INSERT INTO outbox (at, count, body) VALUES ($1, $2, $3)"
OUTBOX_WITH_DELTA = (
    "WITH delta AS (INSERT INTO figure_delta (at, body) VALUES ($1, $2)) "
    "INSERT INTO outbox (at, count, body) VALUES ($3, $4, $5)"
)


@lru_cache(maxsize=1024)
def render_sql(sql: str) -> str:
    """Translate a statement into PostgreSQL's dialect."""
    for pattern, words in _LOCKS:
        sql = pattern.sub(words, sql)
    return _AMONG.sub(r"= ANY($\1)", sql)


@lru_cache(maxsize=256)
def insert_sql(table: str, columns: tuple[str, ...], *, is_new: bool = False) -> str:
    conflict = " ON CONFLICT DO NOTHING" if is_new else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM {_unnest_sql(table, columns)}{conflict}"


@lru_cache(maxsize=256)
def update_sql(table: str, columns: tuple[str, ...]) -> str:
    key, *others = columns
    settings = ", ".join(f"{name} = u.{name}" for name in others)
    return (
        f"UPDATE {table} SET {settings} FROM {_unnest_sql(table, columns)} "
        f"WHERE {table}.{key} = u.{key} AND {table}.{key} = ANY($1)"
    )


def _unnest_sql(table: str, columns: Sequence[str]) -> str:
    kinds = schema.metadata.tables[table].c
    arrays = ", ".join(f"${n}::{kinds[name].type.compile(_DIALECT)}[]" for n, name in enumerate(columns, 1))
    return f"unnest({arrays}) AS u({', '.join(columns)})"


class PostgresTx:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._held: list[tuple[str, list[Any]]] = []

    async def fetch(self, sql: str, *args: Any) -> Sequence[Row]:
        await self.flush_inserts()
        return [tuple(record) for record in await self._connection.fetch(render_sql(sql), *args)]

    async def iterate_rows(self, sql: str, args: Sequence[Any]) -> AsyncGenerator[Row]:
        """Iterate over rows with a cursor, a few at a time, and fewer if they are large: rows not asked for are not
        sent."""
        async with self._connection.transaction(readonly=True):
            cursor = await self._connection.cursor(sql, *args)
            count = _FIRST_ROWS
            while records := await cursor.fetch(count):
                size = 0
                for record in records:
                    row = tuple(record)
                    size += row_bytes(row)
                    yield row
                if len(records) < count:
                    return
                count = max(1, min(_MOST_ROWS, _ROWS_BYTES * len(records) // max(1, size)))

    async def execute(self, sql: str, *args: Any) -> int:
        await self.flush_inserts()
        tag = await self._connection.execute(render_sql(sql), *args)
        return int(tag.rpartition(" ")[2])

    async def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if not rows:
            return
        if len(rows) < _COPY_FROM:
            self._held.append((insert_sql(table.name, tuple(columns)), _to_columns(rows)))
        else:
            await self._connection.copy_records_to_table(table.name, records=rows, columns=list(columns))

    async def insert_new(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            await self.flush_inserts()
            await self._connection.execute(insert_sql(table.name, tuple(columns), is_new=True), *_to_columns(rows))

    async def add_pending(self, rows: Sequence[Row], now: int) -> None:
        columns = _to_columns(rows)
        is_grouped = any(columns[3])
        # Most tasks are in no group: a column without values is not sent.
        self._held.append((ADD_PENDING_MEMBERS, [*columns, now]) if is_grouped else (ADD_PENDING, [*columns[:3], now]))

    async def put_rows(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            await self.flush_inserts()
            sql = insert_sql(table.name, tuple(columns)) + replace_clause(table, columns)
            await self._connection.execute(sql, *_to_columns(rows))

    async def update(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        if rows:
            await self.flush_inserts()
            await self._connection.execute(update_sql(table.name, tuple(columns)), *_to_columns(rows))

    async def add_seen(self, crawl: int, hashes: Sequence[bytes]) -> set[bytes]:
        await self.flush_inserts()
        return {record[0] for record in await self._connection.fetch(SEE, crawl, list(hashes))}

    # These two lock many live rows each. They lock in order of id, as all other statements do: two transactions that
    # meet on the same tasks in different orders would wait for each other until the server detected the deadlock, a
    # whole second later.

    async def assign_tasks(self, rows: Sequence[Row], now: int) -> list[int]:
        await self.flush_inserts()
        records = await self._connection.fetch(ASSIGN, *_to_columns(sorted(rows)), now, now + START_GRACE_MS)
        return [record[0] for record in records]

    async def complete_tasks(self, rows: Sequence[Row], now: int) -> Sequence[Row]:
        await self.flush_inserts()
        columns = _to_columns(sorted(rows, key=lambda row: row[0]))
        return [tuple(record) for record in await self._connection.fetch(COMPLETE, *columns, now)]

    async def write_log(self, delta: Row | None, outbox: Row) -> None:
        await self._send_held([(OUTBOX, [*outbox]) if delta is None else (OUTBOX_WITH_DELTA, [*delta, *outbox])])

    async def flush_inserts(self) -> None:
        """Send the inserts that still wait."""
        if self._held:
            await self._send_held([])

    async def _send_held(self, last: list[tuple[str, list[Any]]]) -> None:
        *others, (sql, args) = self._held + last
        self._held = []
        arguments: list[Any] = []
        parts = []
        for number, (insert, own) in enumerate(others):
            parts.append(f"held{number} AS ({_shift_arguments(insert, len(arguments))})")
            arguments += own
        text = _shift_arguments(sql, len(arguments))
        if parts:
            joined = ", ".join(parts)
            text = f"WITH {joined}, {text[5:]}" if text.startswith("WITH ") else f"WITH {joined} {text}"
        await self._connection.execute(text, *arguments, *args)


@lru_cache(maxsize=256)
def _shift_arguments(sql: str, by: int) -> str:
    """Renumber the arguments of a statement by an offset."""
    return _ARGUMENT.sub(lambda found: f"${int(found.group(1)) + by}", sql) if by else sql


def _to_columns(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
