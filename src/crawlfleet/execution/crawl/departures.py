"""Connections on which a request leaves only after a last look.

Between a turn and its request a connection is made, or the whole process stood still. The client itself calls this for
each time a request is about to go out, also when it asks once more because a kept connection turned out to be closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from crawlfleet.execution.crawl.one_answer import Connector

Look = Callable[[], Awaitable[None]]


class DepartureConnector(Connector):
    """Tracing has hooks for the same, and makes every request a tenth slower."""

    def __init__(self, look: Look, **options: Any) -> None:
        super().__init__(**options)
        self._look = look

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        try:
            await self._look()
        except BaseException:
            # Nothing was sent on it: the next request may have it.
            connection.release()
            raise
        return connection
