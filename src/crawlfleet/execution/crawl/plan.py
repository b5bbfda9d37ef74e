"""What one crawl is to do: a task's parameters, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlfleet import __version__
from crawlfleet.execution.crawl.extract import compiling
from crawlfleet.execution.crawl.extract.compiling import ExtractionPlan
from crawlfleet.execution.crawl.links import canonical, credentials, place

DEFAULT_PAGES = 100
DEFAULT_CONCURRENCY = 8
USER_AGENT = f"crawlfleet/{__version__}"


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    urls: tuple[str, ...]
    """Canonical, each once."""
    bad_urls: tuple[str, ...]
    credentials: Mapping[str, tuple[str, str]]
    """By origin."""
    extraction: ExtractionPlan
    depth: int = 0
    max_pages: int = DEFAULT_PAGES
    is_default_limit: bool = False
    max_seconds: float | None = None
    max_bytes: int | None = None
    same_host: bool = True
    respect_robots: bool = True
    user_agent: str = USER_AGENT
    delay_s: float = 0.0
    concurrency: int = DEFAULT_CONCURRENCY


def plan_of(parameters: Mapping[str, Any]) -> CrawlPlan:
    """Raises BadPlan. A start URL that is none is kept aside: the others are crawled all the same."""
    asked = [*([parameters["url"]] if "url" in parameters else []), *parameters.get("urls", [])]
    urls = {text: canonical(text) for text in asked}
    depth = int(parameters.get("depth", 0))
    good = dict.fromkeys(url for url in urls.values() if url is not None)
    most = parameters.get("max_pages")
    names = ("max_seconds", "max_bytes", "same_host", "respect_robots", "user_agent", "delay_s", "concurrency")
    return CrawlPlan(
        urls=tuple(good),
        bad_urls=tuple(text for text, url in urls.items() if url is None),
        credentials={place(url).origin: known for text, url in urls.items() if url and (known := credentials(text))},
        extraction=compiling.plan_of(parameters),
        depth=depth,
        # Without links to follow, the URLs given are the limit.
        max_pages=int(most) if most is not None else (DEFAULT_PAGES if depth else max(1, len(good))),
        is_default_limit=most is None and depth > 0,
        **{name: parameters[name] for name in names if name in parameters},
    )
