"""Events: they move from the outbox into the event log, and are numbered after their commit."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import Event, EventBatch, expand_batches
from crawlfleet.model.instants import Instant
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.transaction_log import write_events

# Numbers are given to committed rows, in the order they are read: an outbox id says nothing about the commit order. A
# row is taken by deleting it: a second reader, for instance after a write of unknown outcome, does not get it again.
TAKE_OUTBOX = (
    "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT $1) RETURNING id, at, count, body"
)
LAST = "SELECT first + count - 1 FROM event_log ORDER BY first DESC LIMIT 1"
AFTER = "SELECT first, count, at, body FROM event_log WHERE first >= $1 ORDER BY first LIMIT $2"
ROWS_AT_ONCE = 50
"""Number of rows read before it is known how many events they hold: a row may be one event, or those of a thousand
tasks."""
MAX_BYTES = 4 << 20
"""Size of the events in one answer, as they are stored; the event that exceeds it is the last one."""
CONTAINS = "SELECT first FROM event_log WHERE first <= $1 ORDER BY first DESC LIMIT 1"


class EventTables:
    _engine: Engine

    async def record_events(self, batches: Sequence[EventBatch], now: Instant, term: int | None = None) -> None:
        filled = [batch for batch in batches if len(batch)]
        if filled:
            await self._engine.write(lambda tx: write_events(tx, filled, now), term)

    async def relay_events(self, term: int, limit: int) -> int:
        async def move_outbox(tx: Tx) -> int:
            rows = await tx.fetch(TAKE_OUTBOX, limit)
            if not rows:
                return 0
            number = await last_number(tx) + 1
            logged = []
            for _, written_at, count, body in sorted(rows):
                logged.append((number, count, written_at, body))
                number += count
            await tx.insert(schema.event_log, ("first", "count", "at", "body"), logged)
            return number - 1

        return await self._engine.write(move_outbox, term)

    async def events_after(self, number: int, limit: int) -> list[Event]:
        async def read_events(tx: Tx) -> list[Event]:
            rows = await tx.fetch(CONTAINS, number + 1)
            first = rows[0][0] if rows else number + 1
            events: list[Event] = []
            size = 0
            while len(events) < limit and size < MAX_BYTES:
                log_rows = await tx.fetch(AFTER, first, ROWS_AT_ONCE)
                for start, count, written_at, body in log_rows:
                    events.extend(
                        event
                        for event in expand_batches(start, written_at, row_codec.decode_events(bytes(body)))
                        if event.number > number
                    )
                    first, size = start + count, size + len(body)
                    if len(events) >= limit or size >= MAX_BYTES:
                        break
                if len(log_rows) < ROWS_AT_ONCE:
                    break
            return events[:limit]

        return await self._engine.read(read_events)

    async def last_event(self) -> int:
        return await self._engine.read(last_number)


async def last_number(tx: Tx) -> int:
    rows = await tx.fetch(LAST)
    return int(rows[0][0]) if rows else 0
