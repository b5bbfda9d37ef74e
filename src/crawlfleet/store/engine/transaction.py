"""The transaction protocol: what the aggregates need of a database, a transaction that works on batches.

The aggregates are written once, as coroutines over `Tx`. On PostgreSQL they await the server; on SQLite nothing ever
suspends, and the writer thread drives the same coroutine straight through (see `sqlite/engine.py`).

Statements use a few keywords that each dialect renders in its own way:
    AMONG($n)           the value is in the list passed as argument n
    LOCK_ROWS(t)        no other transaction may change the rows of t that were read (SQLite: it owns the file)
    SHARE_ROWS(t)       no transaction may change them, others may share them
    SHARE_KEYS(t)       no transaction may delete them or change their keys
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Table

from crawlfleet.model.instants import ms
from crawlfleet.scheduling.tasks import task_state_machine

Row = tuple[Any, ...]
T = TypeVar("T")

# Columns of the rows of the hot statements, which are written by hand, in the order of their values.
ASSIGN_COLUMNS = ("task", "lane", "execution", "node", "session")
PENDING_COLUMNS = ("id", "lane", "timeout_s", "group_id")
COMPLETE_COLUMNS = ("task", "execution", "node", "started_at", "result", "metrics")
MOVED_COLUMNS = (
    *("id", "execution", "node", "lane", "status", "group_id"),
    *("ready_at", "assigned_at", "started_at"),
)
"""Columns of the live rows that `Tx.complete_tasks` moved."""


class Tx(Protocol):
    async def fetch(self, sql: str, *args: Any) -> Sequence[Row]: ...

    async def execute(self, sql: str, *args: Any) -> int:
        """Execute a statement; return how many rows it touched."""
        ...

    async def insert(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None: ...

    async def insert_new(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert the rows that do not exist yet, by primary key."""
        ...

    async def update(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Set `columns[1:]` of the rows whose key `columns[0]` is the first value of each row."""
        ...

    async def add_seen(self, crawl: int, hashes: Sequence[bytes]) -> set[bytes]:
        """Mark hashes, each given once, as seen by a crawl; return those that it had not seen before."""
        ...

    async def assign_tasks(self, rows: Sequence[Row], now: int) -> list[int]:
        """Assign tasks (hot path): pending -> assigned, of rows (task, lane, execution, node, session); return the
        tasks that moved."""
        ...

    async def add_pending(self, rows: Sequence[Row], now: int) -> None:
        """Insert new live rows that wait for nothing (hot path), of rows (task, lane, timeout_s, group)."""
        ...

    async def complete_tasks(self, rows: Sequence[Row], now: int) -> Sequence[Row]:
        """Complete tasks (hot path): live -> done, with their execution kept, of rows (task, execution, node,
        started_at, result, metrics) whose task is held by exactly this execution and node; return the columns
        `MOVED_COLUMNS` of those that moved, as they were before."""
        ...

    async def put_rows(self, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Insert rows; those that exist already, by primary key, get the values of the other columns."""
        ...

    async def write_log(self, delta: Row | None, outbox: Row) -> None:
        """Write the transaction log (hot path): the figure delta (at, body) if there is one, and the outbox row (at,
        count, body)."""
        ...


class Engine(Protocol):
    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        """Run one transaction, committed to disk before this returns. With a term, NotLeader is raised if it is
        over."""
        ...

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run reads; each statement sees one snapshot."""
        ...

    async def read_by_key(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Read few rows by key; on SQLite on the loop itself, since the way to a thread and back takes longer."""
        ...

    async def close(self) -> None: ...


def replace_clause(table: Table, columns: Sequence[str]) -> str:
    """The end of an insert that replaces rows that exist already; both databases write it alike."""
    key = [column.name for column in table.primary_key.columns]
    settings = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
    return f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {settings}"


START_GRACE_MS = ms(task_state_machine.START_GRACE_S + task_state_machine.DEADLINE_GRACE_S)
"""Grace that the hard deadline of an execution has until it has started, for the way to its node."""

LEADER_CHECK = "SELECT term FROM leader WHERE term = $1 AND holder <> '' SHARE_KEYS(leader)"
