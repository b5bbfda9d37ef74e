"""Where a page is read: small ones here, middle ones in a thread, large or costly ones in a process apart."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from crawlfleet.execution.crawl.answers import Fetched
from crawlfleet.execution.crawl.apart import Apart
from crawlfleet.execution.crawl.charset import text_of
from crawlfleet.execution.crawl.extract.compiling import ExtractionPlan
from crawlfleet.execution.crawl.failures import PageFailed
from crawlfleet.execution.crawl.page import NO_MARKS, ListMarks, NeedsApart, PageFacts, PageJob, read

HERE_BYTES = 64 << 10
THREAD_BYTES = 256 << 10


class PageReader:
    def __init__(self, plan: ExtractionPlan, apart: Apart | None = None, *, marks: ListMarks = NO_MARKS) -> None:
        self._plan = plan
        self._marks = marks
        self._apart = apart or Apart()
        # Of its own: names that resolve slowly fill the loop's shared threads.
        self._thread = ThreadPoolExecutor(1, "page-reader")

    async def read(self, fetched: Fetched, *, container: str | None, follow: bool) -> PageFacts:
        """Raises PageFailed when the page cannot be read within its limits."""
        size = len(fetched.body)
        html = text_of(fetched.body, fetched.charset)
        job = PageJob(
            html,
            fetched.url,
            self._plan.source,
            container,
            follow,
            content_type=fetched.content_type,
            marks=self._marks if follow else NO_MARKS,
        )
        if size > THREAD_BYTES or not self._plan.is_plain:
            return await self._apart.read(job)
        try:
            if size <= HERE_BYTES:
                return read(job)
            # Parsing lets other threads run: a larger page in a thread does not hold up the loop.
            return await asyncio.get_running_loop().run_in_executor(self._thread, read, job)
        except NeedsApart:
            return await self._apart.read(job)
        except Exception as exc:
            # A page that reading stumbles over fails alone, as it does in the process apart: a crawl has many others.
            why = f"{fetched.url}: could not be read ({type(exc).__name__}: {exc})"
            raise PageFailed("parse", why, permanent=True) from exc

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._apart.close()
