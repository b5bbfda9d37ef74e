"""One page read: its links and what its selectors find. Pure: text in, facts out, wherever it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from crawlfleet.execution.crawl import extract
from crawlfleet.execution.crawl.links import canonical, followed
from crawlfleet.execution.crawl.selectors import SelectorSet, compiled
from crawlfleet.execution.crawl.trees import LexborTree, Tree, XPathTree


class PageJob(msgspec.Struct, array_like=True):
    html: str
    url: str
    selectors: dict[str, str]
    container: str | None
    """The one found on an earlier page."""
    follow: bool
    is_apart: bool = False
    """Read by a process that may be killed: deep pages and costly selectors are fine."""


class PageFacts(msgspec.Struct, array_like=True):
    title: str | None = None
    links: list[str] = []
    container: str | None = None
    records: list[dict[str, Any]] = []
    lists: dict[str, list[str]] = {}
    """Where the page has no container."""


class NeedsApart(Exception):
    """The page is nested too deeply to match these selectors here."""


@lru_cache(maxsize=32)
def _compiled(selectors: tuple[tuple[str, str], ...]) -> SelectorSet:
    return compiled(dict(selectors))


def read(job: PageJob) -> PageFacts:
    selectors = _compiled(tuple(job.selectors.items()))
    tree: Tree
    if selectors.by_xpath:
        tree = XPathTree(job.html)
    else:
        tree = LexborTree(job.html)
        if selectors.descents and not job.is_apart and tree.is_deep:
            raise NeedsApart
    facts = PageFacts(title=tree.title())
    if job.follow:
        base = canonical(tree.base_href() or "", job.url) or job.url
        facts.links = followed(tree.hrefs(), base)
    if not selectors.selectors:
        return facts
    found = extract.matches(tree, selectors)
    facts.container = job.container or extract.container(tree, found)
    if facts.container is not None:
        facts.records = extract.records(tree, found, facts.container)
    else:
        facts.lists = extract.lists(tree, found)
    return facts
