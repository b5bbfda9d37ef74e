"""The transaction log that every transition writes beside its rows: the figure delta and the one outbox row."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter

import msgspec

from crawlfleet.model.event import EventBatch
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.ids import GroupId, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Row, Tx

OPEN = 0
"""Status under which a group counts its members that have not ended."""

_FIRST_THREE = itemgetter(0, 1, 2)

Moves = list[tuple[LaneId, int, int]]
"""Changes of the number of tasks: lane, status, and how many more."""
FigureRows = list[tuple[LaneId, NodeId, list[int]]]
"""Task figures: lane, node (0 for none), and a row of `model.figures.task_figures`."""
_encode_delta = msgspec.msgpack.Encoder().encode
decode_delta = msgspec.msgpack.Decoder(tuple[Moves, FigureRows]).decode


class TransactionLog:
    """The collector of a transaction's figures and events; `write_log` writes them all."""

    def __init__(self) -> None:
        self._moves: Counter[tuple[LaneId, int]] = Counter()
        self._submitted: Counter[LaneId] = Counter()
        self._assigned: Counter[tuple[LaneId, NodeId]] = Counter()
        self._figures: defaultdict[tuple[LaneId, NodeId], list[int]] = defaultdict(figures.empty_row)
        self._members: Counter[tuple[GroupId, int]] = Counter()
        self._batches: list[EventBatch] = []

    def count_transition(
        self, lane: LaneId, have: TaskStatus | None, want: TaskStatus | None, count: int = 1, node: NodeId = 0
    ) -> None:
        """Count tasks that were created (`have` is None), changed their status or were removed (`want` is None)."""
        if have is want:
            return
        if have is not None:
            self._moves[lane, int(have)] -= count
        else:
            self._submitted[lane] += count
        if want is not None:
            self._moves[lane, int(want)] += count
            if want.is_final:
                self._figures[lane, node][figures.task_end_place(want)] += count
            elif have is not None and have.is_final:
                self._figures[lane, 0][figures.REOPENED] += count

    def count_lane_change(self, before: LaneId, after: LaneId, status: TaskStatus) -> None:
        self._moves[before, int(status)] -= 1
        self._moves[after, int(status)] += 1

    def count_assignments(self, assigned: Counter[tuple[LaneId, NodeId]]) -> None:
        self._assigned += assigned
        pending, moved = int(TaskStatus.PENDING), int(TaskStatus.ASSIGNED)
        for (lane, _), count in assigned.items():
            self._moves[lane, pending] -= count
            self._moves[lane, moved] += count

    def count_start(self, lane: LaneId, node: NodeId) -> None:
        self._figures[lane, node][figures.STARTED] += 1

    def count_execution_end(
        self,
        lane: LaneId,
        node: NodeId,
        ended: ExecutionStatus,
        *,
        error: ErrorClass | None,
        is_retried: bool,
        ran_ms: int,
        wait_ms: int,
    ) -> None:
        row = self._figures[lane, node]
        figures.record_execution_end(row, ended, error=error, ran_ms=ran_ms, wait_ms=wait_ms)
        if is_retried:
            row[figures.RETRIED] += 1

    def count_completions(self, moved: Sequence[Row], now: Instant) -> None:
        """Count tasks that completed (hot path), of rows (lane, node, status before, ready, assigned, started)."""
        bounds, ran_ms, wait_ms = figures.BOUNDS_MS, figures.RAN_MS, figures.WAIT_MS
        ran_times, wait_times, find_place = figures.RAN_TIMES, figures.WAIT_TIMES, bisect_left
        rows = self._figures
        for lane, node, _, ready_at, assigned_at, started_at in moved:
            row = rows[lane, node]
            span = now - (assigned_at if started_at is None else started_at)
            if span > 0:
                row[ran_ms] += span
            row[ran_times + find_place(bounds, span)] += 1
            span = 0 if ready_at is None else assigned_at - ready_at
            if span > 0:
                row[wait_ms] += span
            row[wait_times + find_place(bounds, span)] += 1
        completed, assigned = int(TaskStatus.COMPLETED), int(TaskStatus.ASSIGNED)
        for (lane, node, had), count in Counter(map(_FIRST_THREE, moved)).items():
            row = rows[lane, node]
            row[figures.COMPLETED] += count
            row[figures.TASKS_COMPLETED] += count
            if had == assigned:
                row[figures.STARTED] += count
            self._moves[lane, had] -= count
            self._moves[lane, completed] += count
        for lane, node, had, _, _, started_at in moved:
            if started_at is None and had == assigned:
                rows[lane, node][figures.STARTED] -= 1

    def count_member(self, group: GroupId, have: TaskStatus | None, want: TaskStatus | None, count: int = 1) -> None:
        """Count a transition of a task in a group: only that there is one member more or less, that it ended, and
        how."""
        before, after = _member_status(have), _member_status(want)
        if before == after:
            return
        if before is not None:
            self._members[group, before] -= count
        if after is not None:
            self._members[group, after] += count

    def add_events(self, batch: EventBatch) -> None:
        self._batches.append(batch)

    async def write_log(self, tx: Tx, now: Instant) -> None:
        delta = self.figure_delta(now)
        if self._members:
            members = [(group, status, n) for (group, status), n in self._members.items() if n]
            await tx.insert(schema.group_delta, ("group_id", "status", "n"), members)
        if self._batches:
            await tx.write_log(delta, _outbox_row(self._batches, now))
        elif delta is not None:
            await tx.insert(schema.figure_delta, ("at", "body"), [delta])

    def figure_delta(self, now: Instant) -> Row | None:
        moves = [(lane, status, n) for (lane, status), n in self._moves.items() if n]
        counted: list[tuple[LaneId, NodeId, Sequence[int]]] = [
            *((lane, 0, _submitted_row(count)) for lane, count in self._submitted.items() if count),
            *((lane, node, _assigned_row(count)) for (lane, node), count in self._assigned.items()),
            *((lane, node, row) for (lane, node), row in self._figures.items()),
        ]
        return (now, _encode_delta((moves, counted))) if moves or counted else None


def correction_delta(moves: Moves, now: Instant) -> Row:
    """Return the figure delta that corrects counters without any change of tasks."""
    return (now, _encode_delta((moves, [])))


def _submitted_row(count: int) -> Sequence[int]:
    assert figures.SUBMITTED == 0
    return (count,)


def _assigned_row(count: int) -> Sequence[int]:
    assert figures.ASSIGNED == 1
    return (0, count)


def _member_status(status: TaskStatus | None) -> int | None:
    return None if status is None else int(status) if status.is_final else OPEN


async def write_events(tx: Tx, batches: Sequence[EventBatch], now: Instant) -> None:
    await tx.write_log(None, _outbox_row(batches, now))


def _outbox_row(batches: Sequence[EventBatch], now: Instant) -> Row:
    return (now, sum(len(batch) for batch in batches), row_codec.encode_events(batches))
