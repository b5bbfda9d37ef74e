"""Retention and counters: what keeps a store small and its counters right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.host_stats import Folded
from crawlfleet.model.ids import ExecutionId, GroupId, TaskId
from crawlfleet.model.installation.retention import KEEP_AUDIT_MS
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import TaskStatus

LANE_FRESH_S = 3 * 3_600.0
"""Span after `ensure_lanes` in which tasks are added to a lane without another check of its row."""
LANE_SWEEP_EVERY_S = 12 * 3_600.0
"""Span between the end of one sweep and the start of the next one. It is longer than `LANE_FRESH_S` by far more than
any transaction takes: that is what makes the removal safe."""


class PruneCursor(NamedTuple):
    """The position of a walk over old rows: rows that stay are passed over once in a walk."""

    task: TaskId = 0
    group: GroupId = 0


class Pruned(NamedTuple):
    """The result of one call of `prune_rows`."""

    tasks: Sequence[TaskId] = ()
    """Ids of removed tasks; the chunks of their executions are listed by `unremoved_chunks`."""
    rows: int = 0
    """Number of removed rows in all; each of those tasks counts as one."""
    cursor: PruneCursor = PruneCursor()
    """Position to continue from."""
    is_more: bool = False
    """Whether a bound ended the call: call again, with the cursor."""


class LanesOfTasks(NamedTuple):
    """The lanes of a range of tasks."""

    lanes: set[LaneId]
    last: TaskId
    """Id of the last task of the range; 0 when there are no further tasks."""


class FinishedFilter(NamedTuple):
    """Which finished tasks a person wants to remove."""

    before: Instant
    """Tasks that ended before this instant."""
    statuses: frozenset[TaskStatus]
    project: str | None = None
    task_type: str | None = None


class FinishedPage(NamedTuple):
    """The finished tasks of a range of ids that a filter selects."""

    tasks: Sequence[TaskId]
    """Tasks that may be removed."""
    needed: int
    """Number of selected tasks that stay, because their group needs them."""
    looked_at: int
    last: TaskId
    """Id of the last task of the range; 0 when there are no further tasks."""


class CompletedResult(NamedTuple):
    """The result of a finished task, as far as its chunks are concerned."""

    task: TaskId
    execution: ExecutionId
    metrics: bytes | None
    """Metrics of the execution that completed the task, with the manifest; None where the task ended otherwise."""


class DueCounts(NamedTuple):
    """How many rows retention would remove, each counted up to a limit."""

    tasks: int
    """Tasks that are old enough; those that a group needs stay all the same."""
    events: int
    """Batches of events."""
    heartbeats: int
    idempotency_keys: int
    audit_entries: int


class RetentionStore(Protocol):
    """Retention: finds and removes what is no longer kept; and the clock marks that it relies on.

    The removal of unused lanes keeps their table small: a row is removed when its lane had no task for hours.
    """

    async def prune_rows(
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

    async def count_due(
        self, now: Instant, keep_tasks_ms: int, keep_events_ms: int, keep_audit_ms: int, limit: int
    ) -> DueCounts:
        """Count what `prune_rows` would remove, each kind up to `limit`."""
        ...

    async def select_finished(self, wanted: FinishedFilter, after: TaskId, limit: int) -> FinishedPage:
        """Look at the next `limit` finished tasks in order of id, and select those that the filter wants."""
        ...

    async def remove_finished(self, term: int, now: Instant, before: Instant, tasks: Sequence[TaskId]) -> list[TaskId]:
        """Remove those of the tasks that are still final since before that instant, and that no group needs.

        Their chunks are listed by `unremoved_chunks`. Returns the removed ones.
        """
        ...

    async def tasks_without_row(self, tasks: Sequence[TaskId]) -> set[TaskId]:
        """Select the ids of which no task exists."""
        ...

    async def finished_results(self, after: TaskId, limit: int) -> list[CompletedResult]:
        """Return the results of the next finished tasks, in order of id."""
        ...

    async def unremoved_chunks(self, limit: int) -> list[TaskId]:
        """Return tasks whose rows are gone, and whose chunks were not yet reported as removed."""
        ...

    async def mark_chunks_removed(self, term: int, tasks: Sequence[TaskId]) -> None:
        """Remove these tasks from the list of `unremoved_chunks`."""
        ...

    async def lane_ids(self, after: LaneId, limit: int) -> list[LaneId]:
        """Return the next lanes in order of id."""
        ...

    async def lanes_of_tasks(self, after: TaskId, limit: int) -> LanesOfTasks:
        """Return the lanes of the next tasks, live and final ones."""
        ...

    async def remove_unused_lanes(self, term: int, sweep: int, lanes: Sequence[LaneId]) -> int:
        """Remove those of `lanes` that an earlier sweep of this term marked and that are still marked.

        Marks the others; returns the number of removed lanes. None of the lanes had a task when this sweep checked.
        Sweeps of a term are numbered from 1, with `LANE_SWEEP_EVERY_S` between them.
        """
        ...

    async def drop_hosts(self, term: int, before: Instant, limit: int) -> int:
        """Remove hosts without limits set by a person, and without requests, back-off or grants since `before`."""
        ...

    async def drop_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        """Remove expired minutes, hours and hosts of the request statistics, at most `limit` of each.

        Returns the number of removed rows.
        """
        ...

    async def drop_task_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        """Remove expired minutes, hours and days of the task figures, at most about `limit`; returns their number."""
        ...

    async def clock_mark(self) -> Instant | None:
        """Return the newest instant at which a leader trusted its wall clock."""
        ...

    async def set_clock_mark(self, term: int, at: Instant) -> None: ...

    async def database_clock(self) -> Instant | None:
        """Return the time of the database's machine; None where that is always this machine."""
        ...


class CounterStore(Protocol):
    """The counters of groups and the statistics of hosts, which are folded from deltas and batches."""

    async def settle_groups(self, term: int, now: Instant) -> int:
        """Fold the counter deltas of groups, and mark the groups whose last member has ended.

        Returns the number of folded rows.
        """
        ...

    async def fold_figures(self, term: int, now: Instant, limit: int = 1_000) -> list[Folded]:
        """Add up to `limit` received batches to the statistics of each host and of all; returns these batches.

        No more hosts are kept than `model.host_stats` allows, in each minute, each hour and in all.
        """
        ...
