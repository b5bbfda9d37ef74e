"""The transaction log that every transition writes beside its rows: counter deltas and the one outbox row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlfleet.model.event import EventBatch
from crawlfleet.model.ids import GroupId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Row, Tx

OPEN = 0
"""Status under which a group counts its members that have not ended."""


class TransactionLog:
    """The collector of a transaction's counter deltas and events; `write_log` writes them all."""

    def __init__(self) -> None:
        self._moves: Counter[tuple[str, int]] = Counter()
        self._members: Counter[tuple[GroupId, int]] = Counter()
        self._batches: list[EventBatch] = []

    def count_transition(self, project: str, have: TaskStatus | None, want: TaskStatus | None, count: int = 1) -> None:
        if have is want:
            return
        if have is not None:
            self._moves[project, int(have)] -= count
        if want is not None:
            self._moves[project, int(want)] += count

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
        deltas = [(project, status, n) for (project, status), n in self._moves.items() if n]
        if self._members:
            members = [(group, status, n) for (group, status), n in self._members.items() if n]
            await tx.insert(schema.group_delta, ("group_id", "status", "n"), members)
        if self._batches:
            await tx.write_log(deltas, _outbox_row(self._batches, now))
        elif deltas:
            await tx.insert(schema.counter_delta, ("project", "status", "n"), deltas)


def _member_status(status: TaskStatus | None) -> int | None:
    return None if status is None else int(status) if status.is_final else OPEN


async def write_events(tx: Tx, batches: Sequence[EventBatch], now: Instant) -> None:
    await tx.write_log([], _outbox_row(batches, now))


def _outbox_row(batches: Sequence[EventBatch], now: Instant) -> Row:
    return (now, sum(len(batch) for batch in batches), row_codec.encode_events(batches))
