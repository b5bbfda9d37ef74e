"""Collects the output of executions while they run, chunk by chunk, from the node that holds the execution.

The fence: a chunk is kept only while the store assigns its execution to the node that sends it. One that slips through,
because the execution ended just then, does no harm: what counts is the manifest committed with the accepted outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import msgspec

from crawlfleet.control.results.warc_validation import checked_records
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import Conflict, InvalidInput
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId, execution_text, task_text
from crawlfleet.ports.chunk_store import CHUNK_BYTES, CHUNKS, ChunkKind, ChunkStore
from crawlfleet.ports.task_store import TaskStore

LEVELS = ("debug", "info", "warning", "error", "critical")


class StaleExecution(Conflict):
    """The node reports for an execution that is not its own, or not live any more."""

    code: ClassVar[str] = "stale_execution"
    field: ClassVar[str] = "execution_id"


class Speaker(NamedTuple):
    """The execution that a call comes from, as its node names it."""

    node: NodeId
    task: TaskId
    execution: ExecutionId


class LogLine(msgspec.Struct, frozen=True):
    at: int
    """Milliseconds since 1970 by the node's clock: for people, never compared with the master's clock."""
    level: str
    message: str


_RAWS = msgspec.json.Decoder(msgspec.Raw)
_VALUES = msgspec.json.Decoder()
_LOG_LINES = msgspec.json.Decoder(LogLine)


class Collect:
    def __init__(self, *, store: TaskStore, chunks: ChunkStore) -> None:
        self._store = store
        self._chunks = chunks

    async def check_live(self, node: NodeId, task: TaskId, execution: ExecutionId) -> None:
        """Raise StaleExecution unless the store assigns this execution to this node."""
        rows = await self._store.live_tasks([task]) if is_storable(task, execution) else {}
        row = rows.get(task)
        if row is None or row.execution != execution or row.node != node:
            detail = f"{execution_text(execution)} of {task_text(task)} is not a live execution of this node"
            raise StaleExecution(detail)

    async def is_anothers(self, node: NodeId, task: TaskId, execution: ExecutionId) -> bool:
        """Return whether the execution is live on another node."""
        row = (await self._store.live_tasks([task])).get(task)
        return row is not None and row.execution == execution and row.node != node

    async def collect_chunk(
        self, node: NodeId, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int, data: bytes
    ) -> None:
        if not 0 <= number < CHUNKS:
            raise InvalidInput(f"0 to {CHUNKS - 1}", field="number")
        await self.check_live(node, task, execution)
        # Records are unpacked to be checked, which takes too long for the event loop.
        checked = await asyncio.to_thread(checked_records, data) if kind == "warc" else checked_lines(kind, data)
        await self._chunks.put(task, execution, kind, number, checked)


def checked_lines(kind: ChunkKind, data: bytes) -> bytes:
    """Return the same lines, each with its line end; raises InvalidInput for what a reader could not read."""
    if len(data) > CHUNK_BYTES:
        raise InvalidInput(f"{len(data)} bytes; at most {CHUNK_BYTES} are taken", field="body")
    try:
        # The decoder does not check strings that it only passes on.
        data.decode()
        lines = _RAWS.decode_lines(data)
        # Nor does it check for numbers that no reader could hold: one such item would make its whole page unreadable.
        _VALUES.decode_lines(data)
        if kind == "log":
            _check_log(_LOG_LINES.decode_lines(data))
    except UnicodeDecodeError as exc:
        raise InvalidInput("not valid UTF-8", field="body") from exc
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise InvalidInput(f"not JSON lines: {exc}", field="body") from exc
    _check_lines(lines, _is_object_on_a_line, "not an object on a line of its own")
    return b"".join(part for line in lines for part in (memoryview(line), b"\n"))


def _check_log(lines: list[LogLine]) -> None:
    for position, line in enumerate(lines):
        if line.level not in LEVELS:
            raise InvalidInput(f"one of {', '.join(LEVELS)}", field=f"body[{position}].level")
        if not 0 <= line.at < 1 << 53:
            raise InvalidInput("milliseconds since 1970", field=f"body[{position}].at")


def _is_object_on_a_line(line: msgspec.Raw) -> bool:
    raw = bytes(line)
    return raw[:1] == b"{" and b"\n" not in raw


def _check_lines(lines: list[msgspec.Raw], is_good: Callable[[msgspec.Raw], bool], complaint: str) -> None:
    for position, line in enumerate(lines):
        if not is_good(line):
            raise InvalidInput(complaint, field=f"body[{position}]")
