"""Coordinates the members of a crawl over many nodes: they report URL batches and get the next ones; a member that gets
none waits for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from crawlfleet.control.results.result_collection import StaleExecution
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.crawl import CrawlCounts, CrawlUrl, UrlFlag
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId, execution_text, task_text
from crawlfleet.ports.chunk_store import CHUNKS
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.composite_store import Asking, ChunkReport, CrawlStore, Exchanged
from crawlfleet.wire.crawl import WAIT_MS, CrawlDown, CrawlUp, ReportBody

LOOK_S = 0.5
"""Interval in seconds at which a waiting call reads the store by itself: other members may report to other masters, or
be lost."""
_CRAWLS_KEPT = 1_000
URL_CHARS = 8_192
DEPTH_MAX = 100_000
VIA_MAX = 50
_FLAGS = UrlFlag.START | UrlFlag.SITEMAP | UrlFlag.CLOSING


class NoCrawl(NotFound):
    """Error with a code of its own: an agent must not take any other 404 for a mistake in the task's parameters."""

    code = "no_crawl"


class Exchange:
    def __init__(self, *, store: CrawlStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._report_events: dict[GroupId, asyncio.Event] = {}
        """Events of the crawls for which calls wait on this master."""
        self._report_count = 0
        self._last_report: dict[GroupId, int] = {}
        """Count at the last report of each recent crawl: a report that came just before a call begins to wait must not
        be missed."""

    async def exchange_batch(
        self,
        node: NodeId,
        task: TaskId,
        execution: ExecutionId,
        up: CrawlUp,
        items: tuple[int, int] = (0, 0),
        records: tuple[int, int] = (0, 0),
    ) -> CrawlDown:
        """Take a member's report and return its next URL batch. `items` and `records` are the chunks of the execution's
        output that belong to the report; the last one is not included."""
        report = None if up.report is None else _parse_report(up.report, items, records)
        asking = Asking(node, task, execution, report, up.held)
        before = self._report_count
        answer = await self._exchange_once(asking)
        until = self._clock.monotonic() + min(up.wait_ms, WAIT_MS) / 1_000
        while answer.state == "wait" and (left_s := until - self._clock.monotonic()) > 0:
            if self._last_report.get(answer.crawl, 0) <= before:
                await self._wait_for_report(answer.crawl, min(left_s, LOOK_S))
            before = self._report_count
            answer = await self._exchange_once(asking._replace(report=None))
        return CrawlDown(answer.state, answer.number, list(answer.urls), answer.has_more)

    async def wake_waiting_calls(self) -> None:
        """Make all waiting calls read the store again at once."""
        for event in self._report_events.values():
            event.set()

    async def _exchange_once(self, asking: Asking) -> Exchanged:
        is_known = is_storable(asking.task, asking.execution)
        answer = await self._store.exchange_batches(asking, self._clock.now()) if is_known else Exchanged(0, "stale")
        what = f"{execution_text(asking.execution)} of {task_text(asking.task)}"
        if answer.state == "stale":
            raise StaleExecution(f"{what} is not a live execution of this node, or the chunk is not its own")
        if answer.state == "no_crawl":
            raise NoCrawl(f"{what} takes part in no crawl over many nodes")
        if answer.is_news:
            self._announce_report(answer.crawl)
        return answer

    def _announce_report(self, crawl: GroupId) -> None:
        self._report_count += 1
        self._last_report[crawl] = self._report_count
        if len(self._last_report) > _CRAWLS_KEPT:
            del self._last_report[next(iter(self._last_report))]
        if (event := self._report_events.pop(crawl, None)) is not None:
            event.set()

    async def _wait_for_report(self, crawl: GroupId, within_s: float) -> None:
        event = self._report_events.setdefault(crawl, asyncio.Event())
        try:
            async with asyncio.timeout(within_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            # The next call to wait makes a new event: none stays for a crawl without waiting calls.
            if self._report_events.get(crawl) is event:
                del self._report_events[crawl]


def _parse_report(body: ReportBody, items: tuple[int, int], records: tuple[int, int]) -> ChunkReport:
    for field, (first, last) in (("items", items), ("warc", records)):
        if not 0 <= first <= last <= CHUNKS:
            raise InvalidInput(f"from-to, of chunks of {field}", field=field)
    _check_urls(body.found, "report.found")
    _check_urls(body.again, "report.again")
    counts = CrawlCounts(**{name: getattr(body, name) for name in CrawlCounts._fields})
    return ChunkReport(body.number, counts, body.found, body.again, *items, *records)


def _check_urls(urls: Iterable[CrawlUrl], field: str) -> None:
    for index, url in enumerate(urls):
        is_good = (
            0 < len(url.url) <= URL_CHARS
            and 0 <= url.depth <= DEPTH_MAX
            and 0 <= url.tries <= DEPTH_MAX
            and 0 <= url.flags <= _FLAGS
            and len(url.via) <= VIA_MAX
        )
        if not is_good:
            raise InvalidInput("no URL that could be visited", field=f"{field}[{index}]")
