"""Ends long polls and streams when the master stops."""

from __future__ import annotations

import asyncio
from typing import cast

from starlette.requests import HTTPConnection

from crawlfleet.api.http.services import Services


class Shutdown:
    """Ends all calls that only wait, so that the server can close in order; no call waits any more from then on."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._closing: set[asyncio.Task[None]] = set()
        self.is_begun = False

    def begin(self) -> None:
        self.is_begun = True
        self._services.task_completions.close()
        self._services.event_feed.close()
        for close in (
            self._services.submit_audit.close,
            self._services.sync.release_polls,
            self._services.pull.release_calls,
            self._services.crawl_coordination.wake_waiting_calls,
        ):
            self._closing.add(asyncio.create_task(close(), name="when stopping"))


def is_stopping(connection: HTTPConnection) -> bool:
    return cast("Shutdown", connection.app.state.shutdown).is_begun
