"""Calls for events, as they happen, and for the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from crawlfleet.client._generated.models import AuditPage, AuditView, EventPage, EventView
from crawlfleet.client.nouns.base import Calls
from crawlfleet.client.nouns.event_stream import follow_events
from crawlfleet.client.transport.http import Params


class EventCalls(Calls):
    async def events(
        self,
        *,
        kinds: Sequence[str] = (),
        task: str | None = None,
        node: str | None = None,
        after: int | None = None,
        give_up_s: float | None = 60.0,
    ) -> AsyncIterator[EventView]:
        """From now on, or after a number. `kinds` may be beginnings: `task.` is everything about tasks. A broken stream
        is resumed where it broke; after `give_up_s` without any master it ends in Unreachable (None: never)."""
        params: Params = {"kind": kinds, "task": task, "node": node}
        async for event in follow_events(self._transport, params, after=after, give_up_s=give_up_s):
            yield event

    async def event_page(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        kinds: Sequence[str] = (),
        task: str | None = None,
        node: str | None = None,
    ) -> EventPage:
        """A page of the log, oldest first. With a filter it may be short, or empty, before the end of the log: that is
        where `next_after` is `last`."""
        params: Params = {"format": "json", "after": after, "limit": limit, "kind": kinds, "task": task, "node": node}
        return await self._transport.get(EventPage, "/events", params)

    async def audit(self, *, limit: int = 100) -> Sequence[AuditView]:
        """Who changed what, newest first."""
        return (await self._transport.get(AuditPage, "/audit", {"limit": limit})).entries
