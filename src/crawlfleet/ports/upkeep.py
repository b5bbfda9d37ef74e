"""What keeps a store small and its counters right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus

KEEP_AUDIT_MS = 365 * 86_400_000


class PruneCursor(NamedTuple):
    """Where a walk over what is old goes on: rows that stay are passed over once in a walk."""

    task: TaskId = 0
    group: GroupId = 0


class Pruned(NamedTuple):
    tasks: Sequence[TaskId] = ()
    """Tasks that went; what their executions left is listed in `unremoved_chunks`."""
    rows: int = 0
    """How many rows went in all; those tasks are one each."""
    cursor: PruneCursor = PruneCursor()
    is_more: bool = False
    """Whether a bound ended it: call again, with the cursor."""


class Upkeep(Protocol):
    async def fold_counters(self, term: int) -> int:
        """Fold counter deltas into their counters; how many rows were folded."""
        ...

    async def totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Tasks by status, from the counters; exact at any moment, in constant time."""
        ...

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        """The same by counting rows: slow, for the reconciler and for checks."""
        ...

    async def prune(
        self,
        term: int,
        now: Instant,
        keep_tasks_ms: int,
        keep_events_ms: int,
        limit: int,
        *,
        keep_audit_ms: int = KEEP_AUDIT_MS,
        keep_gone_ms: int | None = None,
        after: PruneCursor | None = None,
    ) -> Pruned:
        """Drop what retention no longer keeps: at most `limit` rows of each table, each table in its own transaction.

        Products that are gone go after `keep_gone_ms`; None keeps them. Nothing goes that something live needs:
        tasks of flows, shards, crawls and closed groups go when all of it has been finished for as long.
        """
        ...

    async def unremoved_chunks(self, limit: int) -> list[TaskId]:
        """Tasks whose rows are gone, and whose chunks were not yet reported as removed."""
        ...

    async def chunks_removed(self, term: int, tasks: Sequence[TaskId]) -> None:
        """Take these off the list."""
        ...

    async def clock_mark(self) -> Instant | None:
        """The newest instant that a leader believed its wall clock."""
        ...

    async def set_clock_mark(self, term: int, at: Instant) -> None: ...

    async def database_clock(self) -> Instant | None:
        """The clock of the database's machine; None where that is always this one."""
        ...
