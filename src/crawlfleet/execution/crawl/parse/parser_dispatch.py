"""Parser dispatch: small pages are parsed in the event loop, larger ones in a thread, costly ones in a process.

Large pages, and plans that are not plain, count as costly.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from selectolax.lexbor import SelectolaxError

from crawlfleet.execution.crawl.fetch.charset import decode_page
from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.parse.extract.extraction_plan import ExtractionPlan
from crawlfleet.execution.crawl.parse.memory_limit import MemoryLimit
from crawlfleet.execution.crawl.parse.page_parser import (
    NO_MARKS,
    ListMarks,
    NeedsParserProcess,
    PageFacts,
    ParseRequest,
    parse_page,
)
from crawlfleet.execution.crawl.parse.parser_process import ParserProcess
from crawlfleet.execution.page_failures import PageFailed

LOOP_BYTES = 64 << 10
THREAD_BYTES = 256 << 10
SLOW_S, WARY_PAGES = 0.2, 100
"""Seconds after which a small page counts as made to be slow, and the number of pages affected by that.

The next WARY_PAGES pages are parsed in a thread, where they hold up no other work.
"""


class PageParser:
    def __init__(
        self, plan: ExtractionPlan, process: ParserProcess | None = None, *, marks: ListMarks = NO_MARKS
    ) -> None:
        self._plan = plan
        self._marks = marks
        self._process = process or ParserProcess()
        # The thread pool is separate: slow name resolution fills the loop's shared threads.
        self._thread = ThreadPoolExecutor(1, "page-reader")
        self._wary_pages = 0

    async def parse_page(self, fetched: Fetched, *, container: str | None, follow: bool) -> PageFacts:
        """Parse a page. Raises PageFailed when it cannot be parsed within its limits."""
        size = len(fetched.body)
        html = decode_page(fetched.body, fetched.charset)
        request = ParseRequest(
            html,
            fetched.url,
            self._plan.source,
            container,
            follow,
            content_type=fetched.content_type,
            marks=self._marks if follow else NO_MARKS,
        )
        if size > THREAD_BYTES or not self._plan.is_plain:
            return await self._process.parse_page(request)
        try:
            if size <= LOOP_BYTES and not self._wary_pages:
                return self._parse_in_loop(request)
            self._wary_pages = max(0, self._wary_pages - 1)
            # Parsing lets other threads run: a larger page in a thread does not hold up the loop.
            return await asyncio.get_running_loop().run_in_executor(self._thread, _parse_within_limit, request)
        except (NeedsParserProcess, MemoryError, SelectolaxError):
            return await self._process.parse_page(request)
        except Exception as exc:
            # A page that cannot be parsed is a mistake of the parser, and no reason to lose all the others.
            raise PageFailed("internal", f"{fetched.url}: cannot be read ({exc!r:.200})", permanent=True) from exc

    def _parse_in_loop(self, request: ParseRequest) -> PageFacts:
        began = time.monotonic()
        try:
            return _parse_within_limit(request)
        finally:
            if time.monotonic() - began > SLOW_S:
                self._wary_pages = WARY_PAGES

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._process.close()


def _parse_within_limit(request: ParseRequest) -> PageFacts:
    with MemoryLimit():
        return parse_page(request)
