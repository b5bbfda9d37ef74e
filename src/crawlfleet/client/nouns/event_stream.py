"""Follows the events of an installation; a stream that breaks is resumed where it broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import msgspec

from crawlfleet.client._generated.models import EventView
from crawlfleet.client.errors import ApiError, Unreachable
from crawlfleet.client.transport.http import Params, Transport
from crawlfleet.client.transport.retry import may_repeat
from crawlfleet.client.transport.stream_parsers import EventParser, read_lines

_AGAIN_S = (0.2, 5.0)


async def follow_events(
    transport: Transport, params: Params, *, after: int | str | None = None, give_up_s: float | None = None
) -> AsyncIterator[EventView]:
    """Yield events for ever, or until no master has answered for `give_up_s`."""
    parser = EventParser(last_id=None if after is None else str(after))
    loop = asyncio.get_running_loop()
    pause, silent_since, is_heard = _AGAIN_S[0], loop.time(), False
    while True:
        try:
            async with transport.open_stream(
                "/events", params=params, headers=_stream_headers(parser.last_id)
            ) as stream:
                async for line in read_lines(stream):
                    pause, silent_since, is_heard = _AGAIN_S[0], loop.time(), True
                    if (event := parser.feed(line.decode("utf-8", "replace"))) is not None:
                        yield msgspec.json.decode(event.data, type=EventView)
        except ApiError as exc:
            is_late = give_up_s is not None and loop.time() - silent_since > give_up_s
            if not may_repeat(exc.status, is_repeatable=True) and (not exc.is_foreign or not is_heard or is_late):
                raise
        except Unreachable:
            if give_up_s is not None and loop.time() - silent_since > give_up_s:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, _AGAIN_S[1])


def _stream_headers(last_id: str | None) -> Mapping[str, str]:
    return {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
