"""Pulls of simple clients: opened, claimed and closed, and read by the leader.

Each step locks the lease before it looks. A batch of the dispatcher holds the same lease while it assigns, and reads
the pull after that: so nothing is assigned to a pull that was closed, and the step that closes a pull sees all that was
assigned to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from crawlfleet.model.ids import ExecutionId, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import OpenPull, PullFilter
from crawlfleet.model.status import Recall, TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.pull_store import SESSION_OVER, PullRequest, PullTurn
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.nodes.node_registration import LOCK_LEASE
from crawlfleet.store.tasks.live_tasks import HELD_BY

PULL_MARKS = "SELECT number, delivered FROM pull WHERE node = $1"
OPEN_PULLS = "SELECT node, session, number, want, span_ms, filter, held FROM pull WHERE want > 0"
CLOSE_PULL = "UPDATE pull SET want = 0, delivered = $2 WHERE node = $1"
_encode = msgspec.json.Encoder().encode
# Cached: the leader reads all open pulls again and again, and most have the same conditions and hold nothing.
_decode_filter = lru_cache(maxsize=1_024)(msgspec.json.Decoder(PullFilter).decode)
_decode_held = lru_cache(maxsize=1_024)(msgspec.json.Decoder(frozenset[int]).decode)
_delivered = msgspec.json.Decoder(dict[int, int])

Deliveries = Mapping[ExecutionId, Instant]
"""Instant of the last delivery of each execution that has not started."""


class PullTables:
    _engine: Engine

    async def begin_pull(self, request: PullRequest, grace_ms: int, now: Instant) -> PullTurn:
        async def write_pull(tx: Tx) -> PullTurn:
            lease = await tx.fetch(LOCK_LEASE, request.node)
            if not lease or lease[0][:2] != (request.session, 1):
                return PullTurn(SESSION_OVER)
            rows = await tx.fetch(PULL_MARKS, request.node)
            number, marks = (rows[0][0] + 1, _delivered.decode(rows[0][1])) if rows else (1, {})
            held = await _held_tasks(tx, request.node)
            unstarted = _unstarted(held, request.session)
            claimed = _claimable(unstarted, marks, grace_ms, now)[: max(1, request.want)]
            columns = {
                "node": request.node,
                "session": request.session,
                "number": number,
                "want": 0 if claimed else request.want,
                "span_ms": request.span_ms,
                "filter": _encode(request.filter),
                "held": _encode([row.execution for row in held]),
                "delivered": _encode(_marked(marks, unstarted, claimed, now)),
            }
            if rows:
                await tx.update(schema.pull, tuple(columns), [tuple(columns.values())])
            else:
                await tx.insert(schema.pull, tuple(columns), [tuple(columns.values())])
            return PullTurn(number, claimed)

        return await self._engine.write(write_pull)

    async def claim_pull(
        self, node: NodeId, number: int, want: int, grace_ms: int, now: Instant, *, is_last: bool
    ) -> PullTurn:
        async def write_claim(tx: Tx) -> PullTurn:
            lease = await tx.fetch(LOCK_LEASE, node)
            rows = await tx.fetch(PULL_MARKS, node)
            if not lease or not rows:
                return PullTurn(SESSION_OVER)
            if rows[0][0] != number:
                return PullTurn(rows[0][0])
            marks = _delivered.decode(rows[0][1])
            unstarted = _unstarted(await _held_tasks(tx, node), lease[0][0])
            claimed = _claimable(unstarted, marks, grace_ms, now)[: max(1, want)]
            if claimed or is_last:
                await tx.execute(CLOSE_PULL, node, _encode(_marked(marks, unstarted, claimed, now)))
            return PullTurn(number, claimed)

        return await self._engine.write(write_claim)

    async def newest_pull(self, node: NodeId) -> int:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(PULL_MARKS, node))
        return rows[0][0] if rows else 0

    async def open_pulls(self) -> list[OpenPull]:
        return await self._engine.read(read_open_pulls)

    async def delivered_executions(self, node: NodeId) -> set[ExecutionId]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(PULL_MARKS, node))
        return set(_delivered.decode(rows[0][1])) if rows else set()


async def read_open_pulls(tx: Tx) -> list[OpenPull]:
    return [
        OpenPull(node, session, number, want, span_ms, _decode_filter(bytes(body)), _decode_held(bytes(held)))
        for node, session, number, want, span_ms, body, held in await tx.fetch(OPEN_PULLS)
    ]


async def _held_tasks(tx: Tx, node: NodeId) -> list[LiveTask]:
    return [task_rows.live_task_from_row(row) for row in await tx.fetch(HELD_BY, [node])]


def _unstarted(held: Sequence[LiveTask], session: int) -> list[LiveTask]:
    """Return what the session holds and has not started, in the order of assignment."""
    waiting = [row for row in held if row.status is TaskStatus.ASSIGNED and row.session == session]
    return sorted((row for row in waiting if row.recall is Recall.NONE), key=lambda row: row.execution)


def _claimable(unstarted: Sequence[LiveTask], marks: Deliveries, grace_ms: int, now: Instant) -> list[LiveTask]:
    # A mark from the future is that of another master's clock, or of this one before it was set back.
    return [row for row in unstarted if row.execution not in marks or not 0 <= now - marks[row.execution] < grace_ms]


def _marked(
    marks: Deliveries, unstarted: Sequence[LiveTask], claimed: Sequence[LiveTask], now: Instant
) -> dict[ExecutionId, Instant]:
    """Return the marks with those of this claim; the marks of what has started or ended are dropped."""
    left = {row.execution: marks[row.execution] for row in unstarted if row.execution in marks}
    return left | {row.execution: now for row in claimed}
