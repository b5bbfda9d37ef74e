"""Finds the execution that a task's results come from, and which of its chunks count."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from crawlfleet.errors import NotFound
from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, TaskId, execution_text, task_text
from crawlfleet.model.status import ExecutionStatus
from crawlfleet.ports.chunk_store import CHUNKS, ChunkKind
from crawlfleet.ports.task_store import TaskReadStore


class Manifest(msgspec.Struct, frozen=True):
    """The manifest that is committed with an outcome: which chunks count. The metrics of an executor may hold anything
    else."""

    items: int = 0
    item_chunks: int = 0
    log_chunks: int | None = None
    warc_chunks: int = 0

    def count_chunks(self, kind: ChunkKind) -> int:
        return self.warc_chunks if kind == "warc" else self.item_chunks


class FoundExecution(NamedTuple):
    execution: ExecutionId | None
    manifest: Manifest | None
    """Manifest of the execution. None: it has not completed, so that the chunks that exist are all there is to go
    by."""
    is_live: bool = False

    @property
    def id_text(self) -> str | None:
        return None if self.execution is None else execution_text(self.execution)


class ExecutionLookup:
    def __init__(self, *, store: TaskReadStore) -> None:
        self._store = store

    async def find_with_items(self, task: TaskId) -> FoundExecution:
        """Return the execution that completed the task, or the one that runs, or none."""
        record = (await self._store.load_tasks([task])).get(task)
        if record is None:
            raise NotFound(f"no task {task_text(task)}")
        executions = await self._store.task_executions(task)
        completed = [
            execution
            for execution in executions
            if execution.status is ExecutionStatus.COMPLETED and execution.round == record.round
        ]
        if completed:
            return _convert_record(completed[-1])
        live = [execution for execution in executions if execution.status is None]
        return _convert_record(live[-1]) if live else FoundExecution(None, None)

    async def find_with_log(self, task: TaskId, execution: ExecutionId | None) -> FoundExecution:
        """Return the named execution of the task, or its newest."""
        if not await self._store.load_tasks([task]):
            raise NotFound(f"no task {task_text(task)}")
        executions = await self._store.task_executions(task)
        if execution is not None:
            executions = [record for record in executions if record.id == execution]
            if not executions:
                raise NotFound(f"{task_text(task)} has no execution {execution_text(execution)}")
        return _convert_record(executions[-1]) if executions else FoundExecution(None, None, is_live=True)


def read_manifest(metrics: bytes | None) -> Manifest:
    """Read the manifest from the metrics. An executor that counts nothing, or in a form of its own, has left no
    items."""
    try:
        manifest = msgspec.json.decode(metrics or b"{}", type=Manifest)
    except msgspec.MsgspecError:
        return Manifest()
    counts = (manifest.item_chunks, manifest.log_chunks or 0, manifest.warc_chunks)
    is_sound = manifest.items >= 0 and all(0 <= count <= CHUNKS for count in counts)
    return manifest if is_sound else Manifest()


def _convert_record(record: ExecutionRecord) -> FoundExecution:
    manifest = read_manifest(record.metrics) if record.status is ExecutionStatus.COMPLETED else None
    return FoundExecution(record.id, manifest, is_live=record.status is None)
