"""A member of a crawl over many nodes leases URL batches, crawls them and reports them, until nothing is left.

While it works on one URL batch it asks for the next, so that it need not wait for an answer between them. One batch is
reported at a time: its items go first, and then its report, which makes them count.
"""

from __future__ import annotations

import asyncio

import msgspec

from crawlfleet.execution.crawl.engine.collected_items import Emit
from crawlfleet.execution.crawl.engine.crawl import Crawl, first_of
from crawlfleet.execution.crawl.shared.shared_frontier import Chunk, SharedFrontier
from crawlfleet.execution.crawl.shared.shared_page_notes import ChunkBook, gone
from crawlfleet.execution.sdk import MasterLink
from crawlfleet.model.crawl import CrawlUrl, UrlFlag
from crawlfleet.wire.crawl import WAIT_MS, CrawlDown, CrawlUp

AHEAD = 2
"""Number of URL batches that a member holds at a time, with the one it works on."""
LOOK_S = 1.0
"""Seconds after which a member that still works asks for more URLs, if there were none."""
PAUSE_S = 0.05
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CrawlDown).decode


class Member:
    def __init__(
        self,
        crawl: Crawl,
        frontier: SharedFrontier,
        master: MasterLink,
        emit: Emit,
        book: ChunkBook | None = None,
        *,
        ahead: int = AHEAD,
    ) -> None:
        self._crawl = crawl
        self._frontier = frontier
        self._master = master
        self._emit = emit
        self._book = book
        self._ahead = ahead

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._feed())
                group.create_task(self._crawl.run())
        except BaseExceptionGroup as group_failure:
            raise first_of(group_failure) from None

    async def _feed(self) -> None:
        while await self._exchange():
            pass
        self._frontier.is_open = False
        self._crawl.wake()

    async def _exchange(self) -> bool:
        """Report one finished URL batch and lease the next; returns False once nothing is left to do."""
        frontier = self._frontier
        if len(frontier.held) >= self._ahead:
            await frontier.until_over()
        chunk = frontier.take_over()
        report = None
        if chunk is not None:
            for item in chunk.items:
                await self._emit(item)
            report = chunk.report(frontier.take_found())
        held = frontier.held
        # Only a member that has nothing to do waits in a long poll: the others have to report.
        up = CrawlUp(report, held, 0 if held else WAIT_MS)
        down = _decode(await self._master.report_crawl(_encode(up)))
        match down.state:
            case "chunk" if down.urls and down.urls[0].flags & UrlFlag.CLOSING:
                await self._close(down.number, down.urls[0])
            case "chunk":
                self._crawl.expect(one.url for one in down.urls if not one.flags & UrlFlag.SITEMAP)
                frontier.load(down.number, down.urls)
                self._crawl.wake()
                if not down.has_more:
                    await frontier.until_over(LOOK_S)
            case "done" if not held:
                return False
            case _ if held:
                await frontier.until_over(LOOK_S)
            case _:
                # A master that stops does not hold long polls.
                await asyncio.sleep(PAUSE_S)
        return True

    async def _close(self, number: int, one: CrawlUrl) -> None:
        """Handle the closing URL: every page that any link led to was visited.

        Pages of the earlier crawl that were not found are visited now, and those that are not found then either are
        gone.
        """
        chunk = Chunk(number, 0)
        unmet = [] if self._book is None else await self._book.unmet()
        if unmet and not one.tries:
            self._crawl.expect_known((url, was.depth) for url, was in unmet)
            chunk.again.append(one._replace(tries=1))
        else:
            for url, was in unmet:
                # An entry without a hash only failed before: it was no page that could be gone.
                if was.hash:
                    chunk.note(gone(url))
        self._frontier.end_closing(chunk)
