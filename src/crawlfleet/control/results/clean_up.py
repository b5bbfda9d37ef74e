"""Clean-up that a person orders: what retention would remove, finished tasks by filter, results without a task.

Each call looks at a bounded number of records, and returns where the next one goes on. Without `is_applied` it only
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from crawlfleet.errors import Conflict
from crawlfleet.model.ids import TaskId
from crawlfleet.model.installation.retention import Retention
from crawlfleet.model.instants import Instant
from crawlfleet.ports.chunk_store import ChunkFile, ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.maintenance_store import DueCounts, FinishedFilter, PruneCursor, RetentionStore

BATCH = 1_000
COUNTED_MOST = 100_000
"""Rows of each kind that are counted; more are reported as this number."""
EXAMPLES = 20


class CleanUpStore(RetentionStore, LeadershipStore, Protocol):
    """The part of the store that clean-up works on."""


class RetentionReport(NamedTuple):
    due: DueCounts | None
    """Counts before anything is removed, in the first call of several."""
    removed_rows: int
    cursor: PruneCursor | None
    """Where the next call goes on; None when nothing is left."""


class TasksReport(NamedTuple):
    looked_at: int
    selected: int
    """Tasks that the filter selects and that may be removed."""
    needed: int
    """Tasks that the filter selects and that stay, because their group needs them."""
    removed: int
    cursor: TaskId | None


@dataclass(frozen=True, slots=True)
class ResultsReport:
    files: int
    """Files that were looked at."""
    orphans: int
    """Tasks without a row that have files."""
    orphan_files: int
    orphan_bytes: int
    removed: int
    examples: tuple[TaskId, ...]
    cursor: str | None


class CleanUp:
    def __init__(
        self,
        *,
        store: CleanUpStore,
        chunks: ChunkStore,
        clock: Clock,
        retention: Retention,
        parse_task: Callable[[str], TaskId | None],
    ) -> None:
        self._store = store
        self._chunks = chunks
        self._clock = clock
        self._retention = retention
        self._parse_task = parse_task

    async def apply_retention(self, after: PruneCursor | None, *, is_applied: bool) -> RetentionReport:
        """Count what is past its retention, and remove a batch of it. Age is judged by the last instant at which a
        leader trusted its clock. Raises Conflict before there is one."""
        believed = await self._store.clock_mark()
        if believed is None:
            raise Conflict(
                "no leader has trusted its clock yet: the clock of a new installation has to run steadily for an hour"
            )
        spans = self._retention
        due = None
        if after is None:
            due = await self._store.count_due(believed, spans.tasks_ms, spans.events_ms, spans.audit_ms, COUNTED_MOST)
        if not is_applied:
            return RetentionReport(due, 0, None)
        pruned = await self._store.prune_rows(
            await self._leading_term(),
            believed,
            spans.tasks_ms,
            spans.events_ms,
            BATCH,
            keep_audit_ms=spans.audit_ms,
            keep_gone_ms=spans.gone_products_ms,
            after=after,
        )
        return RetentionReport(due, pruned.rows, pruned.cursor if pruned.is_more else None)

    async def remove_tasks(self, wanted: FinishedFilter, after: TaskId, *, is_applied: bool) -> TasksReport:
        """Look at the next finished tasks, and remove those that the filter selects. Their files are removed by the
        pruner."""
        page = await self._store.select_finished(wanted, after, BATCH)
        removed = 0
        if is_applied and page.tasks:
            term, now = await self._leading_term(), self._clock.now()
            removed = len(await self._store.remove_finished(term, now, wanted.before, page.tasks))
        return TasksReport(page.looked_at, len(page.tasks), page.needed, removed, page.last or None)

    async def remove_orphans(self, after: str, *, is_applied: bool) -> ResultsReport:
        """Look at the next files of results, and remove those of tasks that do not exist."""
        files = await self._next_files(after)
        by_task: dict[TaskId, list[ChunkFile]] = {}
        for file in files:
            if (task := self._parse_task(file.name)) is not None:
                by_task.setdefault(task, []).append(file)
        # Deleted tasks whose files are on the list of the pruner are removed by it in any case.
        orphans = sorted(await self._store.tasks_without_row(list(by_task))) if by_task else []
        if is_applied and orphans:
            await self._chunks.drop(orphans)
        orphan_files = [file for task in orphans for file in by_task[task]]
        return ResultsReport(
            files=len(files),
            orphans=len(orphans),
            orphan_files=len(orphan_files),
            orphan_bytes=sum(file.size_bytes for file in orphan_files),
            removed=len(orphans) if is_applied else 0,
            examples=tuple(orphans[:EXAMPLES]),
            cursor=files[-1].name if files else None,
        )

    async def _next_files(self, after: str) -> list[ChunkFile]:
        async for page in self._chunks.list_files(after):
            return page
        return []

    async def _leading_term(self) -> int:
        # Any master may serve the call; the writes are fenced by the term that leads now.
        return (await self._store.read_leader()).term


def finished_before(now: Instant, older_than_s: float) -> Instant:
    return now - round(older_than_s * 1000)
