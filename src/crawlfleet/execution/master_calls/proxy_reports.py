"""Proxy health reports: collected from the node's executor processes, and sent to a master when they change."""

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
    """Calls to a master that are retried until one answers."""

    async def put(self, path: str, lines: bytes) -> None:
        """PUT to a master, retried until one has stored it. Raises the master's objection."""
        ...


class ProxyHealthReports:
    """The last proxy health report of each executor process."""

    def __init__(self) -> None:
        self._processes: dict[int, dict[tuple[str, str], ProxyHealth]] = {}
        self.has_changed = asyncio.Event()

    def update_process(self, process: int, states: Iterable[ProxyHealth]) -> None:
        self._processes[process] = {(health.pool, health.proxy): health for health in states}
        self.has_changed.set()

    def remove_process(self, process: int) -> None:
        """Forget the report of a process that is gone."""
        if self._processes.pop(process, None) is not None:
            self.has_changed.set()

    def merged_health(self) -> list[ProxyHealth]:
        return merge_health(self._processes.values())


async def report_proxies(book: ProxyHealthReports, calls: MasterCalls, node: NodeId, every_s: float = REPORT_S) -> None:
    """Send the merged reports to a master whenever they change, at most once in `every_s`; runs until cancelled."""
    path = f"/api/v1/nodes/{node_text(node)}/proxies"
    while True:
        await book.has_changed.wait()
        book.has_changed.clear()
        body = msgspec.json.encode(ProxiesUp([ProxyHealthBody(*health) for health in book.merged_health()]))
        try:
            await calls.put(path, body)
        except CrawlfleetError as exc:
            # The report is for display only: a master of an earlier version does not have the route.
            log.info("proxy_report_refused", error=str(exc))
        await asyncio.sleep(every_s)
