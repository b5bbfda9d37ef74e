"""What every transition writes beside its rows: counter deltas and the one outbox row of its transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlfleet.model.event import EventBatch
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.store import codec, tables
from crawlfleet.store.tx import Row, Tx


class Journal:
    """Collects while a transaction works; `write` puts it all down."""

    def __init__(self) -> None:
        self._moves: Counter[tuple[str, int]] = Counter()
        self._batches: list[EventBatch] = []

    def moved(self, project: str, have: TaskStatus | None, want: TaskStatus | None, count: int = 1) -> None:
        if have is want:
            return
        if have is not None:
            self._moves[project, int(have)] -= count
        if want is not None:
            self._moves[project, int(want)] += count

    def tell(self, batch: EventBatch) -> None:
        self._batches.append(batch)

    async def write(self, tx: Tx, now: Instant) -> None:
        deltas = [(project, status, n) for (project, status), n in self._moves.items() if n]
        if self._batches:
            await tx.note(deltas, _outbox_row(self._batches, now))
        elif deltas:
            await tx.insert(tables.counter_delta, ("project", "status", "n"), deltas)


async def write_events(tx: Tx, batches: Sequence[EventBatch], now: Instant) -> None:
    await tx.note([], _outbox_row(batches, now))


def _outbox_row(batches: Sequence[EventBatch], now: Instant) -> Row:
    return (now, sum(len(batch) for batch in batches), codec.encode_events(batches))
