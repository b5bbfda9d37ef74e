"""Metrics for Prometheus: of this process, and of the whole installation."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import BEARER_SCHEME, require_principal
from crawlfleet.api.http.responses import ResponseSpec
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import Services
from crawlfleet.api.views.installation_metrics import collect_installation_metrics
from crawlfleet.api.views.metrics_scrape import MakeMetrics, Scrape
from crawlfleet.api.views.metrics_text import ScrapeText
from crawlfleet.api.views.process_metrics import collect_process_metrics
from crawlfleet.errors import Unavailable
from crawlfleet.model.principal import Role

routes = RouteTable("metrics")

REMEMBERED_S = 900.0
"""Time in seconds for which a token that has read the metrics of this process may go on while the store, which holds
the tokens, does not answer."""
_MAX_REMEMBERED = 100

_TEXT = {"type": "string"}
_SCRAPE_ANSWER = ResponseSpec(
    {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}, "The text that Prometheus reads, by `Accept`."
)


class Scrapes:
    """What scrapes remember: the texts, for seconds, and the tokens that read them."""

    def __init__(self, services: Services) -> None:
        async def read_process() -> MakeMetrics:
            return partial(collect_process_metrics, services)

        async def read_installation() -> MakeMetrics:
            reader = services.installation
            return partial(collect_installation_metrics, await reader.read_installation(), reader.configure)

        self.process = Scrape(read_process, services.clock.monotonic)
        self.installation = Scrape(read_installation, services.clock.monotonic)
        self.scrapers = KnownScrapers(services.clock.monotonic)


class KnownScrapers:
    """Callers whose token was valid for the metrics, by the hash of what they sent."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen_at: OrderedDict[bytes, float] = OrderedDict()

    def remember(self, request: Request) -> None:
        key = _hash_credentials(request)
        self._seen_at[key] = self._monotonic()
        self._seen_at.move_to_end(key)
        if len(self._seen_at) > _MAX_REMEMBERED:
            self._seen_at.popitem(last=False)

    def is_remembered(self, request: Request) -> bool:
        seen_at = self._seen_at.get(_hash_credentials(request))
        return seen_at is not None and self._monotonic() < seen_at + REMEMBERED_S


def _hash_credentials(request: Request) -> bytes:
    sent = [value for name, value in request.scope["headers"] if name in (b"authorization", b"x-api-key")]
    return hashlib.sha256(b"\n".join(sent)).digest()


def _get_scrapes(request: Request) -> Scrapes:
    return cast("Scrapes", request.app.state.scrapes)


async def _allow_scraper(request: Request, _: object = Depends(BEARER_SCHEME)) -> None:
    """Allow viewers and metrics tokens. While the store is away those that were here before are allowed: the metrics of
    this process show why it is away."""
    scrapers = _get_scrapes(request).scrapers
    try:
        await require_principal(request, Role.VIEWER, Role.METRICS)
    except Unavailable:
        if not scrapers.is_remembered(request):
            raise
    else:
        scrapers.remember(request)


SCRAPER: Any = Depends(_allow_scraper)


@routes.get("/metrics", _SCRAPE_ANSWER, name="process")
async def show_process_metrics(request: Request, _: None = SCRAPER) -> Response:
    """The metrics of this master's process. Every master has its own; scrape them all."""
    return _text_response(await _get_scrapes(request).process.render(request.headers.get("accept", "")))


@routes.get("/metrics/installation", _SCRAPE_ANSWER, name="installation")
async def show_installation_metrics(request: Request, _: None = SCRAPER) -> Response:
    """The metrics of the whole installation, from the store. All masters give the same; scrape one address."""
    return _text_response(await _get_scrapes(request).installation.render(request.headers.get("accept", "")))


def _text_response(scrape: ScrapeText) -> Response:
    return Response(scrape.text, headers={"Content-Type": scrape.content_type, "Cache-Control": "no-store"})
