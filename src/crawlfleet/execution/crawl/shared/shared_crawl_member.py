"""A member of a crawl over many nodes: leases URLs, crawls them, reports them, until nothing is left.

While it works on one chunk it asks for the next, so that it need not wait for an answer between them. One chunk is
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
"""Chunks it has at a time, with the one it works on."""
LOOK_S = 1.0
"""How often one that works asks for more when there was none."""
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
        """False once nothing is left to do."""
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
        # Only one that has nothing to do is made to wait: others have to report.
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
                # A master that stops does not park anybody.
                await asyncio.sleep(PAUSE_S)
        return True

    async def _close(self, number: int, one: CrawlUrl) -> None:
        """Every page that anything led to was visited: those of the earlier crawl that were not met are visited now,
        and those that are not met then either are gone."""
        chunk = Chunk(number, 0)
        unmet = [] if self._book is None else await self._book.unmet()
        if unmet and not one.tries:
            self._crawl.expect_known((url, was.depth) for url, was in unmet)
            chunk.again.append(one._replace(tries=1))
        else:
            for url, was in unmet:
                # What only failed before was no page that could go.
                if was.hash:
                    chunk.note(gone(url))
        self._frontier.end_closing(chunk)
