"""Reports of how the node's proxies do: gathered from its processes, and sent to a master when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

import msgspec
import structlog

from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.proxy_health import ProxyHealth, merge_health
from crawlfleet.wire.proxies import ProxiesUp, ProxyHealthBody

log = structlog.get_logger()

REPORT_S = 5.0


class MasterCalls(Protocol):
    async def put(self, path: str, lines: bytes) -> None:
        """Until a master has it. Raises what a master objects to."""
        ...


class ProxyBook:
    """What each executor process has reported last."""

    def __init__(self) -> None:
        self._processes: dict[int, dict[tuple[str, str], ProxyHealth]] = {}
        self.has_changed = asyncio.Event()

    def update(self, process: int, states: Iterable[ProxyHealth]) -> None:
        self._processes[process] = {(health.pool, health.proxy): health for health in states}
        self.has_changed.set()

    def forget(self, process: int) -> None:
        """Of a process that is gone; what it had found out is found out again."""
        if self._processes.pop(process, None) is not None:
            self.has_changed.set()

    def merged(self) -> list[ProxyHealth]:
        return merge_health(self._processes.values())


async def report_proxies(book: ProxyBook, calls: MasterCalls, node: NodeId, every_s: float = REPORT_S) -> None:
    """Send the book to a master whenever it changes, and not more often than every few seconds; until cancelled."""
    path = f"/api/v1/nodes/{node_text(node)}/proxies"
    while True:
        await book.has_changed.wait()
        book.has_changed.clear()
        body = msgspec.json.encode(ProxiesUp([ProxyHealthBody(*health) for health in book.merged()]))
        try:
            await calls.put(path, body)
        except CrawlfleetError as exc:
            # Only people look at it: a master of an earlier version does not know the call.
            log.info("proxy_report_refused", error=str(exc))
        await asyncio.sleep(every_s)
