"""Events: a live stream that can be resumed, or pages of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Label, Limit
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import get_services
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.events import EventFilter, EventView, event_view, make_event_filter
from crawlfleet.control.nodes.heartbeat_feed import READ_S, UNNUMBERED, HeartbeatFeed, SeenRenewals
from crawlfleet.control.support.event_feed import BATCH, EventFeed
from crawlfleet.errors import InvalidInput, Unavailable
from crawlfleet.model.event import Event
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("events", PREFIX)

HEARTBEAT_S = 15.0
RETRY_MS = 1_000
LOOKED_AT_MOST = 10_000
"""Events, for one page of those that a filter keeps."""
_MOST = (1 << 63) - 1
_encode = msgspec.json.Encoder().encode


class EventPage(msgspec.Struct, frozen=True):
    events: list[EventView]
    next_after: int
    """Ask again with it as `after`: of a log with little that is wanted, a page may be short, or empty."""
    last: int
    """How far the log goes."""


async def _event_filter(
    request: Request,
    kind: Annotated[list[Label] | None, Query(max_length=50, description="Kinds, or how they begin: `task.`")] = None,
    task: Annotated[str | None, Query(description="Of this task only.")] = None,
    node: Annotated[str | None, Query(description="Of this node only: its id or device id.")] = None,
) -> EventFilter:
    return await make_event_filter(get_services(request).node_reader, kind or (), task, node)


_EVENTS_ANSWER = ResponseSpec(
    {"text/event-stream": {"type": "string"}, "application/json": EventPage},
    "A stream of events (`id` is the event's number, `data` an EventView), or a page of them.",
)


@routes.get("/events", _EVENTS_ANSWER, name="events")
async def list_events(
    request: Request,
    wanted: Annotated[EventFilter, Depends(_event_filter)],
    format: Annotated[Literal["sse", "json"], Query(description="A stream, or a page.")] = "sse",
    after: Annotated[int | None, Query(ge=0, le=_MOST, description="Only events after this number.")] = None,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=50)] = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """What happens, as it happens. A stream begins now, or after `Last-Event-ID` or `after`, and so goes on where it
    broke off; a page begins with the oldest event kept. `node.heartbeat` is told live, to streams that name it."""
    services = get_services(request)
    feed = services.event_feed
    if format == "json":
        return json_response(await _read_page(feed, after or 0, limit, wanted))
    start = _parse_event_number(last_event_id) if last_event_id else after
    last = await feed.last_event()
    heartbeats = services.heartbeat_feed if wanted.wants_heartbeats else None
    stream = _stream_events(request, feed, last if start is None else min(start, last), wanted, heartbeats)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _read_page(feed: EventFeed, after: int, limit: int, wanted: EventFilter) -> EventPage:
    """Looks past what is not wanted, up to a bound: then a page is short, and ends where the next one begins."""
    shown: list[EventView] = []
    left = LOOKED_AT_MOST
    while len(shown) < limit and left > 0:
        events = await feed.list_events(after, min(left, limit if wanted == EventFilter() else BATCH))
        if not events:
            break
        left -= len(events)
        for event in events:
            after = event.number
            if wanted.matches_event(event):
                shown.append(event_view(event))
                if len(shown) == limit:
                    break
    return EventPage(shown, after, await feed.last_event())


async def _stream_events(
    request: Request, feed: EventFeed, number: int, wanted: EventFilter, heartbeats: HeartbeatFeed | None
) -> AsyncIterator[bytes]:
    metrics = get_services(request).metrics
    metrics.event_streams += 1
    try:
        async for lines in _event_lines(request, feed, number, wanted, heartbeats):
            yield lines
    finally:
        metrics.event_streams -= 1


async def _event_lines(
    request: Request, feed: EventFeed, number: int, wanted: EventFilter, heartbeats: HeartbeatFeed | None
) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MS}\n\n".encode()
    seen: SeenRenewals | None = None
    quiet_s = 0.0
    pause_s = HEARTBEAT_S if heartbeats is None else READ_S
    while not is_stopping(request):
        try:
            events: Sequence[Event] = await feed.list_events(number)
            if heartbeats is not None:
                beats, seen = await heartbeats.newer_heartbeats(seen)
                if lines := b"".join(_encode_event(event) for event in beats if wanted.matches_event(event)):
                    yield lines
        except Unavailable:
            # The stream ends; the client comes again, after the last number it has seen.
            return
        if events:
            if events[0].number > number + 1:
                yield f": events {number + 1} to {events[0].number - 1} are no longer kept\n\n".encode()
            number = events[-1].number
            if lines := b"".join(_encode_event(event) for event in events if wanted.matches_event(event)):
                yield lines
        elif not await feed.wait_for_event(number, pause_s) and not is_stopping(request):
            quiet_s += pause_s
            if quiet_s >= HEARTBEAT_S:
                quiet_s = 0.0
                # The number goes along: a stream that filters much does not begin far back when it is resumed.
                yield f": still here\nid: {number}\n\n".encode()


def _encode_event(event: Event) -> bytes:
    if event.number == UNNUMBERED:
        # Without an id: a stream is resumed after the last event of the log.
        return b"data: %s\n\n" % _encode(event_view(event))
    return b"id: %d\ndata: %s\n\n" % (event.number, _encode(event_view(event)))


def _parse_event_number(last_event_id: str) -> int:
    if last_event_id.isascii() and last_event_id.isdigit() and int(last_event_id) <= _MOST:
        return int(last_event_id)
    raise InvalidInput("the number of an event", field="Last-Event-ID")
