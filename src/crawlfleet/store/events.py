"""Events: from the outbox, numbered after commit, into the log."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import Event, EventBatch, expand
from crawlfleet.model.instants import Instant
from crawlfleet.store import codec, tables
from crawlfleet.store.journal import write_events
from crawlfleet.store.tx import Engine, Tx

# Numbers come from what is committed, in the order it is read: an outbox id says nothing about commit order.
# Deleting is what takes a row: whoever comes second, after a write of unknown outcome say, does not get it again.
TAKE_OUTBOX = (
    "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT $1) RETURNING id, at, count, body"
)
LAST = "SELECT first + count - 1 FROM event_log ORDER BY first DESC LIMIT 1"
AFTER = "SELECT first, count, at, body FROM event_log WHERE first >= $1 ORDER BY first LIMIT $2"
CONTAINS = "SELECT first FROM event_log WHERE first <= $1 ORDER BY first DESC LIMIT 1"


class EventTables:
    _engine: Engine

    async def record(self, batches: Sequence[EventBatch], now: Instant, term: int | None = None) -> None:
        told = [batch for batch in batches if len(batch)]
        if told:
            await self._engine.write(lambda tx: write_events(tx, told, now), term)

    async def relay(self, term: int, limit: int) -> int:
        async def work(tx: Tx) -> int:
            rows = await tx.fetch(TAKE_OUTBOX, limit)
            if not rows:
                return 0
            number = await last_number(tx) + 1
            logged = []
            for _, at, count, body in sorted(rows):
                logged.append((number, count, at, body))
                number += count
            await tx.insert(tables.event_log, ("first", "count", "at", "body"), logged)
            return number - 1

        return await self._engine.write(work, term)

    async def events_after(self, number: int, limit: int) -> list[Event]:
        async def work(tx: Tx) -> list[Event]:
            rows = await tx.fetch(CONTAINS, number + 1)
            first = rows[0][0] if rows else number + 1
            events: list[Event] = []
            for start, _, at, body in await tx.fetch(AFTER, first, limit):
                events.extend(e for e in expand(start, at, codec.decode_events(bytes(body))) if e.number > number)
                if len(events) >= limit:
                    break
            return events[:limit]

        return await self._engine.read(work)

    async def last_event(self) -> int:
        return await self._engine.read(last_number)


async def last_number(tx: Tx) -> int:
    rows = await tx.fetch(LAST)
    return int(rows[0][0]) if rows else 0
