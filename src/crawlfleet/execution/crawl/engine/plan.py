"""The crawl plan: a task's parameters, validated and converted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawlfleet.execution.crawl.fetch.header_profiles import OWN, HeaderSets, checked_headers
from crawlfleet.execution.crawl.frontier.follow_config import FollowConfig, compile_follow_config, make_normaliser
from crawlfleet.execution.crawl.frontier.urls import canonical_url, parse_origin, url_credentials
from crawlfleet.execution.crawl.parse.extract import extraction_plan
from crawlfleet.execution.crawl.parse.extract.extraction_plan import ExtractionPlan
from crawlfleet.version import __version__

DEFAULT_PAGES = 100
DEFAULT_CONCURRENCY = 8
WAIT_FOR_HOST_S = 60.0
USER_AGENT = f"crawlfleet/{__version__}"


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    urls: tuple[str, ...]
    """Canonical start URLs, each once."""
    bad_urls: tuple[str, ...]
    """Messages about start URLs that are not valid, with their position: "urls[3]: 'x' is no URL of a page"."""
    credentials: Mapping[str, tuple[str, str]]
    """User and password per origin, as given in start URLs."""
    extraction: ExtractionPlan
    follow_config: FollowConfig
    depth: int = 0
    max_pages: int = DEFAULT_PAGES
    is_default_limit: bool = False
    max_seconds: float | None = None
    max_bytes: int | None = None
    respect_robots: bool = True
    obey_noindex: bool = False
    user_agent: str = USER_AGENT
    """User agent of the crawl, which is also the name that robots.txt is read for, whatever a header profile sends."""
    headers: HeaderSets = field(default_factory=lambda: HeaderSets(user_agent=USER_AGENT))
    is_plain: bool = True
    """Whether the crawl has no headers or credentials of its own: sites answer it as they answer any visitor."""
    delay_s: float = 0.0
    concurrency: int = DEFAULT_CONCURRENCY
    wait_for_host_s: float = WAIT_FOR_HOST_S
    """Seconds for which the crawl waits for a host that stopped answering."""


def make_crawl_plan(parameters: Mapping[str, Any]) -> CrawlPlan:
    """Build the plan of a crawl from a task's parameters. Raises BadPlan and BadRule.

    Start URLs that are not valid are listed in `bad_urls`: the others are crawled all the same.
    """
    start_texts = [*([parameters["url"]] if "url" in parameters else []), *parameters.get("urls", [])]
    first = int("url" in parameters)
    normalise = make_normaliser(parameters)
    urls = {text: url and normalise(url) for text, url in ((text, canonical_url(text)) for text in start_texts)}
    depth = int(parameters.get("depth", 0))
    good_urls = dict.fromkeys(url for url in urls.values() if url is not None)
    max_pages = parameters.get("max_pages")
    follow_config = compile_follow_config(parameters, good_urls, depth)
    is_open = depth > 0 or follow_config.finds_more
    names = (
        "max_seconds",
        "max_bytes",
        "respect_robots",
        "obey_noindex",
        "user_agent",
        "delay_s",
        "concurrency",
        "wait_for_host_s",
    )
    profile = parameters.get("profile", OWN)
    headers = checked_headers(parameters.get("headers", {}))
    origin_logins = {
        parse_origin(url).origin: login for text, url in urls.items() if url and (login := url_credentials(text))
    }
    return CrawlPlan(
        urls=tuple(good_urls),
        bad_urls=tuple(
            f"{'url' if index < first else f'urls[{index - first}]'}: {text!r:.300} is no URL of a page"
            for index, text in enumerate(start_texts)
            if urls[text] is None
        ),
        credentials=origin_logins,
        headers=HeaderSets(
            user_agent=parameters.get("user_agent", USER_AGENT),
            is_named="user_agent" in parameters,
            profiles=[profile] if isinstance(profile, str) else profile,
            headers=headers,
            starts=good_urls,
        ),
        is_plain=not (headers or origin_logins or "profile" in parameters or "proxies" in parameters),
        extraction=extraction_plan.compile_plan(parameters),
        follow_config=follow_config,
        depth=depth,
        # Without links to follow, the number of start URLs is the limit.
        max_pages=int(max_pages) if max_pages is not None else (DEFAULT_PAGES if is_open else max(1, len(good_urls))),
        is_default_limit=max_pages is None and is_open,
        **{name: parameters[name] for name in names if name in parameters},
    )
