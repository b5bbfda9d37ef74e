"""What keeps a store small and its counters right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus

KEEP_AUDIT_MS = 365 * 86_400_000


class Pruned(NamedTuple):
    tasks: Sequence[TaskId] = ()
    """What they left in other places can go as well."""
    rows: int = 0
    """How many went in all; those tasks are one each."""


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
        self, term: int, now: Instant, keep_tasks_ms: int, keep_events_ms: int, limit: int,
        *, keep_audit_ms: int = KEEP_AUDIT_MS, keep_gone_ms: int | None = None,
    ) -> Pruned:  # fmt: skip
        """Drop what retention no longer keeps, at most `limit` tasks and as many entries of the audit log.

        Of products that are gone for longer than `keep_gone_ms` as many; None keeps them.
        """
        ...
