"""A member of a crawl over many nodes leases URL batches, crawls them and reports them, until nothing is left.

While it works on one URL batch it asks for the next, so that it need not wait for an answer between them. One batch is
reported at a time: its items go first, and then its report, which makes them count.
"""

from __future__ import annotations

import asyncio

import msgspec

from crawlfleet.execution.crawl.engine.collected_items import Emit
from crawlfleet.execution.crawl.engine.crawl import Crawl, first_exception
from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier, UrlBatch
from crawlfleet.execution.crawl.shared.shared_page_notes import SharedPageNotes, make_gone_note
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


class CrawlMember:
    def __init__(
        self,
        crawl: Crawl,
        frontier: SharedFrontier,
        master: MasterLink,
        emit: Emit,
        page_notes: SharedPageNotes | None = None,
        *,
        ahead: int = AHEAD,
    ) -> None:
        self._crawl = crawl
        self._frontier = frontier
        self._master = master
        self._emit = emit
        self._page_notes = page_notes
        self._ahead = ahead

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._exchange_batches())
                group.create_task(self._crawl.run())
        except BaseExceptionGroup as group_failure:
            raise first_exception(group_failure) from None

    async def _exchange_batches(self) -> None:
        while await self._exchange_batch():
            pass
        self._frontier.is_open = False
        self._crawl.wake()

    async def _exchange_batch(self) -> bool:
        """Report one finished URL batch and lease the next; returns False once nothing is left to do."""
        frontier = self._frontier
        if len(frontier.held_numbers) >= self._ahead:
            await frontier.wait_for_finished()
        batch = frontier.pop_finished()
        report = None
        if batch is not None:
            for item in batch.items:
                await self._emit(item)
            report = batch.make_report(frontier.pop_found_urls())
        held = frontier.held_numbers
        # Only a member that has nothing to do waits in a long poll: the others have to report.
        up = CrawlUp(report, held, 0 if held else WAIT_MS)
        down = _decode(await self._master.report_crawl(_encode(up)))
        match down.state:
            case "chunk" if down.urls and down.urls[0].flags & UrlFlag.CLOSING:
                await self._handle_closing_url(down.number, down.urls[0])
            case "chunk":
                self._crawl.add_member_urls(
                    crawl_url.url for crawl_url in down.urls if not crawl_url.flags & UrlFlag.SITEMAP
                )
                frontier.load_batch(down.number, down.urls)
                self._crawl.wake()
                if not down.has_more:
                    await frontier.wait_for_finished(LOOK_S)
            case "done" if not held:
                return False
            case _ if held:
                await frontier.wait_for_finished(LOOK_S)
            case _:
                # A master that stops does not hold long polls.
                await asyncio.sleep(PAUSE_S)
        return True

    async def _handle_closing_url(self, number: int, crawl_url: CrawlUrl) -> None:
        """Handle the closing URL: every page that any link led to was visited.

        Pages of the earlier crawl that were not found are visited now, and those that are not found then either are
        gone.
        """
        batch = UrlBatch(number, 0)
        missing = [] if self._page_notes is None else await self._page_notes.find_missing_pages()
        if missing and not crawl_url.tries:
            self._crawl.add_earlier_pages((url, earlier.depth) for url, earlier in missing)
            batch.retried_urls.append(crawl_url._replace(tries=1))
        else:
            for url, earlier in missing:
                # An entry without a hash only failed before: it was no page that could be gone.
                if earlier.hash:
                    batch.add_note(make_gone_note(url))
        self._frontier.end_closing(batch)
