"""A scrape: metrics as text, made in a thread and cached, so that a busy scraper costs next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client.metrics_core import Metric

from crawlfleet.api.views.metrics_text import ScrapeText, write_openmetrics, write_plain
from crawlfleet.control.support.single_flight import SingleFlight

CACHED_S = 5.0
_OPENMETRICS = "application/openmetrics-text"
MakeMetrics = Callable[[], Iterable[Metric]]
ReadMetrics = Callable[[], Awaitable[MakeMetrics]]


class Scrape:
    """One path of metrics. `read` does what has to wait (the store); what it returns is called in a thread, and makes
    the metrics. Scrapes that come together share one reading."""

    def __init__(self, read: ReadMetrics, monotonic: Callable[[], float]) -> None:
        self._plain = _CachedText(read, write_plain, monotonic)
        self._open = _CachedText(read, write_openmetrics, monotonic)

    async def render(self, accept: str) -> ScrapeText:
        """Return the text in the format that the scraper accepts: OpenMetrics where it is named, else plain text."""
        return await (self._open if _OPENMETRICS in accept else self._plain).load()


class _CachedText:
    def __init__(
        self, read: ReadMetrics, write: Callable[[Iterable[Metric]], ScrapeText], monotonic: Callable[[], float]
    ) -> None:
        self._read = read
        self._write = write
        self._monotonic = monotonic
        self._text = ScrapeText(b"", "")
        self._valid_until = float("-inf")
        self._refresh = SingleFlight(self._write_text, "metrics scrape")

    async def load(self) -> ScrapeText:
        if self._monotonic() >= self._valid_until:
            await self._refresh()
        return self._text

    async def _write_text(self) -> None:
        make_metrics = await self._read()
        self._text = await asyncio.to_thread(lambda: self._write(make_metrics()))
        self._valid_until = self._monotonic() + CACHED_S
