"""The seeds of a crawl over many nodes: its first URLs, its limits, and the parameters of its members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlfleet.execution.crawl.engine.plan import make_crawl_plan
from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.frontier.urls import canonical_url, parse_origin
from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan
from crawlfleet.model.crawl import CrawlLimits, CrawlUrl, UrlFlag

MEMBER = "spread"
"""Parameter that makes a task a member: its URLs come from the crawl, not from its own start URLs."""


REPORTED_URLS = 5


class BadCrawl(Exception):
    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Seeds:
    limits: CrawlLimits
    urls: list[CrawlUrl]
    parameters: dict[str, Any]
    """Parameters of each member."""


def make_crawl_seeds(parameters: Mapping[str, Any], members: int) -> Seeds:
    """Return the seeds for parameters that fit the schema of a crawl.

    Raises BadCrawl for parameters that cannot be crawled all the same.
    """
    if MEMBER in parameters:
        raise BadCrawl(MEMBER, "is set for the members of a crawl, not by hand")
    try:
        plan = make_crawl_plan(parameters)
    except BadRule as exc:
        raise BadCrawl(exc.field, exc.detail) from exc
    except BadPlan as exc:
        raise BadCrawl(exc.problems[0].path, exc.problems[0].detail) from exc
    if plan.bad_urls:
        field, _, detail = plan.bad_urls[0].partition(": ")
        raise BadCrawl(field, "; ".join([detail, *plan.bad_urls[1:REPORTED_URLS]]))
    frontier = Frontier()
    LinkFilter(plan.follow_config, frontier, depth=plan.depth).add_start_urls(plan.urls)
    urls = []
    while (link := frontier.pop_link(lambda _host: True)) is not None:
        urls.append(crawl_url_from_link(link))
    if "since" in parameters:
        urls.append(CrawlUrl(parameters["since"], 0, flags=int(UrlFlag.CLOSING)))
    max_ms = None if plan.max_seconds is None else round(plan.max_seconds * 1_000)
    limits = CrawlLimits(members, plan.depth, plan.max_pages, max_ms, plan.max_bytes)
    return Seeds(limits, urls, _member_parameters(parameters))


def _member_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a member, with one start URL per origin.

    The start URLs determine whose pages are followed, and which origins receive the credentials in them.
    """
    start_texts = [*([parameters["url"]] if "url" in parameters else []), *parameters.get("urls", [])]
    origins: dict[str, str] = {}
    for text in start_texts:
        if (url := canonical_url(text)) is not None and ("@" in text or parse_origin(url).origin not in origins):
            origins[parse_origin(url).origin] = text
    others = {name: value for name, value in parameters.items() if name not in {"url", "urls"}}
    return {**others, "urls": list(origins.values()), MEMBER: True}


def crawl_url_from_link(link: Link) -> CrawlUrl:
    flags = (UrlFlag.START if link.is_start else 0) | (UrlFlag.SITEMAP if link.is_sitemap else 0)
    return CrawlUrl(link.url, link.depth, link.tries, int(flags), link.via)


def link_from_crawl_url(crawl_url: CrawlUrl) -> Link:
    flags = UrlFlag(crawl_url.flags)
    return Link(
        crawl_url.url,
        crawl_url.depth,
        UrlFlag.START in flags,
        crawl_url.tries,
        tuple(crawl_url.via),
        is_sitemap=UrlFlag.SITEMAP in flags,
    )
