"""Retention and counters: what keeps a store small and its counters right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus

KEEP_AUDIT_MS = 365 * 86_400_000
"""Span for which the audit log is kept."""


class PruneCursor(NamedTuple):
    """The position of a walk over old rows: rows that stay are passed over once in a walk."""

    task: TaskId = 0
    group: GroupId = 0


class Pruned(NamedTuple):
    """The result of one call of `prune`."""

    tasks: Sequence[TaskId] = ()
    """Ids of removed tasks; the chunks of their executions are listed by `unremoved_chunks`."""
    rows: int = 0
    """Number of removed rows in all; each of those tasks counts as one."""
    cursor: PruneCursor = PruneCursor()
    """Position to continue from."""
    is_more: bool = False
    """Whether a bound ended the call: call again, with the cursor."""


class Upkeep(Protocol):
    """Retention, counters and clock marks of a store."""

    async def fold_counters(self, term: int) -> int:
        """Fold counter deltas into their counters; returns the number of folded rows."""
        ...

    async def totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Return the number of tasks by status from the counters; exact at any time, in constant time."""
        ...

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Return the same numbers by counting rows: slow, for the reconciler and for checks."""
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

        Products that are gone are removed after `keep_gone_ms`; None keeps them. Nothing is removed that something live
        needs: tasks of flows, shards, crawls and closed groups are removed when all of it has been finished for as
        long.
        """
        ...

    async def unremoved_chunks(self, limit: int) -> list[TaskId]:
        """Return tasks whose rows are gone, and whose chunks were not yet reported as removed."""
        ...

    async def chunks_removed(self, term: int, tasks: Sequence[TaskId]) -> None:
        """Remove these tasks from the list of `unremoved_chunks`."""
        ...

    async def clock_mark(self) -> Instant | None:
        """Return the newest instant at which a leader trusted its wall clock."""
        ...

    async def set_clock_mark(self, term: int, at: Instant) -> None: ...

    async def database_clock(self) -> Instant | None:
        """Return the time of the database's machine; None where that is always this machine."""
        ...
