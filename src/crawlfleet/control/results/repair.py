"""Repairs that a person orders: counters, the ready index, results. None of them changes the state of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from crawlfleet.control.results.execution_lookup import Manifest, read_manifest
from crawlfleet.errors import InvariantBroken
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.chunk_store import ChunkKind, ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.maintenance_store import RetentionStore
from crawlfleet.ports.queue_store import ReadyTaskStore
from crawlfleet.ports.task_store import TaskStore

BATCH = 1_000
DESCRIBED = 100
"""Counters whose lanes are looked up to describe them."""


class RepairStore(FigureStore, RetentionStore, ReadyTaskStore, TaskStore, Protocol):
    """The part of the store that repairs work on."""


class LaneDrift(NamedTuple):
    """A counter that does not agree with its rows."""

    lane: LaneId
    description: Lane | None
    """What the lane stands for; None for a lane that is gone, and for those after the first hundred."""
    status: TaskStatus
    missing: int
    """By how much the counter is too small; negative where it is too large."""


class ReadyReport(NamedTuple):
    windows: int
    """Windows of the ready index that were dropped; they are filled again from the store."""
    lanes: int
    """Lanes with ready tasks, by the store."""


class MissingChunks(NamedTuple):
    """Chunks that the manifest of a completed task counts and that are not stored."""

    task: TaskId
    execution: ExecutionId
    kind: ChunkKind
    expected: int
    stored: int
    """Chunks that are stored before the first missing one."""


class ResultsCheck(NamedTuple):
    looked_at: int
    missing: list[MissingChunks]
    cursor: TaskId | None


class Repair:
    def __init__(self, *, store: RepairStore, broker: Broker, chunks: ChunkStore, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._chunks = chunks
        self._clock = clock

    async def recount_tasks(self, *, is_applied: bool) -> list[LaneDrift]:
        """Compare the counters with the rows in one snapshot, and correct them if asked. What other transactions do
        meanwhile changes rows and counters alike, so that the drift stays what it was."""
        drift = await self._store.find_drift()
        if is_applied:
            await self._store.correct_counters(drift, self._clock.now())
        drifts: list[LaneDrift] = []
        for lane, counts in sorted(drift.items()):
            description = await self._describe_lane(lane) if len(drifts) < DESCRIBED else None
            drifts += [LaneDrift(lane, description, status, missing) for status, missing in counts.items()]
        return drifts

    async def rebuild_ready_index(self) -> ReadyReport:
        """Drop all windows of the ready index: the leader fills them again from the store at once."""
        windows = len(await self._broker.ready_index.list_windows())
        await self._broker.ready_index.clear()
        await self._broker.signals.send_signals([LOOK, LEADER])
        return ReadyReport(windows, len(await self._store.ready_lanes()))

    async def check_results(self, after: TaskId) -> ResultsCheck:
        """Look for chunks that the next finished tasks should have."""
        page = await self._store.finished_results(after, BATCH)
        missing: list[MissingChunks] = []
        for result in page:
            if result.metrics is not None:
                missing += await self._missing_chunks(result.task, result.execution, read_manifest(result.metrics))
        if missing:
            # Tasks that retention removed meanwhile miss nothing.
            gone = await self._store.tasks_without_row(sorted({chunks.task for chunks in missing}))
            missing = [chunks for chunks in missing if chunks.task not in gone]
        return ResultsCheck(len(page), missing, page[-1].task if len(page) == BATCH else None)

    async def _describe_lane(self, lane: LaneId) -> Lane | None:
        try:
            return (await self._store.load_lanes([lane]))[0]
        except InvariantBroken:
            # The lane of a counter that should be gone is gone itself.
            return None

    async def _missing_chunks(self, task: TaskId, execution: ExecutionId, manifest: Manifest) -> list[MissingChunks]:
        missing: list[MissingChunks] = []
        counts: Mapping[ChunkKind, int] = {
            "items": manifest.item_chunks,
            "log": manifest.log_chunks or 0,
            "warc": manifest.warc_chunks,
        }
        for kind, expected in counts.items():
            if expected and (stored := await self._chunks.count(task, execution, kind)) < expected:
                missing.append(MissingChunks(task, execution, kind, expected, stored))
        return missing
