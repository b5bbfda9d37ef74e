"""The page parser extracts links and records from one page. It is pure: text in, facts out, in any process."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from crawlfleet.execution.crawl.frontier.urls import canonical_url, resolve_links
from crawlfleet.execution.crawl.parse.extract import flat_selectors
from crawlfleet.execution.crawl.parse.extract.dom import LexborTree, Tree, XPathTree, title
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, ExtractionPlan, compiled
from crawlfleet.execution.crawl.parse.extract.field_counts import TYPE_ERRORS, Columns, column
from crawlfleet.execution.crawl.parse.extract.json_pages import BUDGET, BUDGET_APART, decoded, in_scripts, json_records
from crawlfleet.execution.crawl.parse.extract.main_text import readable
from crawlfleet.execution.crawl.parse.extract.metadata import language, metadata
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks, page_links
from crawlfleet.execution.crawl.parse.extract.records import records
from crawlfleet.execution.crawl.parse.extract.structured import structured
from crawlfleet.scheduling.flows.expressions import BudgetExceeded, EvaluationBudget

PAGE_LINKS_SHOWN = 1_000
NEXT_MOST = 10
_LOOK_AT_CHARS = 1_000
_BEGINNING = re.compile(
    r"(?:<!--[^>]*-->\s*|<\?xml[^>]*>\s*)*<(?:!doctype\s+html|html|head|body|title)\b", re.IGNORECASE
)


class ListMarks(msgspec.Struct, array_like=True, frozen=True):
    """The selectors for the next page of a list and for whether it goes on; empty for none."""

    next: str = ""
    more: str = ""


NO_MARKS = ListMarks()


class PageJob(msgspec.Struct, array_like=True):
    html: str
    url: str
    plan: bytes
    """Value of `source` of the extraction plan, which the parser compiles once per process."""
    container: str | None
    """Container that was recognised on an earlier page."""
    follow: bool
    """Whether the links of the page are needed."""
    is_apart: bool = False
    """Whether the page is parsed by a process that may be killed: deep pages and costly selectors are allowed there."""
    content_type: str = ""
    marks: ListMarks = NO_MARKS


class PageFacts(msgspec.Struct, array_like=True):
    title: str | None = None
    """Title of the page, if the page itself is asked for."""
    links: PageLinks = msgspec.field(default_factory=PageLinks)
    """Links as they are written, relative to `base`: most were seen before, which is known without parsing them."""
    base: str = ""
    next: list[str] = []
    """Hrefs of the next page that the selectors of the list found."""
    goes_on: bool = True
    container: str | None = None
    records: list[dict[str, Any]] = []
    lists: dict[str, list[str]] = {}
    """Values per selector, if the page has no container."""
    data: dict[str, list[dict[str, Any]]] = {}
    """Records of the explicit form per container."""
    page: dict[str, Any] = {}
    """Parts of the page itself, if they are asked for."""
    counts: Columns = {}


class NeedsApart(Exception):
    """Raised when a page is nested too deeply, or holds too much, to be parsed in this process."""


def read(job: PageJob) -> PageFacts:
    plan = compiled(job.plan)
    if plan.has_json and _is_json(job):
        return _read_json(job, plan)
    tree: Tree
    if plan.by_xpath:
        tree = XPathTree(job.html)
    else:
        tree = LexborTree(job.html)
        if (plan.descents or job.marks != NO_MARKS) and not job.is_apart and tree.is_deep:
            raise NeedsApart
    links, base = PageLinks(), job.url
    if (job.follow or not plan.is_empty) and _is_markup(job):
        links = page_links(tree)
        base = (canonical_url(links.base, job.url) if links.base else None) or job.url
    facts = PageFacts(base=base)
    if plan.page or plan.is_only_page:
        facts.title = title(tree)
    if job.follow:
        facts.links = links
        _read_marks(tree, job.marks, facts)
    if plan.flat.selectors:
        _read_flat(tree, plan, job.container, facts)
    for container in plan.containers:
        if container.expression is None:
            facts.data[container.name] = records(tree, container, base, facts.counts)
        else:
            facts.data[container.name] = _json(in_scripts(tree, container), container, base, facts, job.is_apart)
    if plan.page:
        facts.page = _page(tree, plan.page, links, job, base)
    return facts


def _is_markup(job: PageJob) -> bool:
    """Return whether the text is parsed for links.

    Plain text has links only if it begins as a page does: the source of a manual has links in its examples.
    """
    if not job.content_type or job.content_type.endswith(("html", "xml")):
        return True
    return _BEGINNING.match(job.html[:_LOOK_AT_CHARS].lstrip("\ufeff \t\r\n")) is not None


def _read_marks(tree: Tree, marks: ListMarks, facts: PageFacts) -> None:
    if marks.next:
        hrefs = (tree.attribute(link, "href") for link in tree.css(marks.next)[:NEXT_MOST])
        facts.next = [href for href in hrefs if href]
    if marks.more:
        facts.goes_on = tree.first(marks.more) is not None


def _read_flat(tree: Tree, plan: ExtractionPlan, container: str | None, facts: PageFacts) -> None:
    found = flat_selectors.matches(tree, plan.flat)
    facts.container = container or flat_selectors.container(tree, found)
    if facts.container is not None:
        facts.records = flat_selectors.records(tree, plan.flat, found, facts.container)
    else:
        facts.lists = flat_selectors.lists(tree, found)
    flat_selectors.count(facts.counts, found, facts.container, facts.records)


def _read_json(job: PageJob, plan: ExtractionPlan) -> PageFacts:
    facts = PageFacts(base=job.url)
    document = decoded(job.html)
    for container in plan.containers:
        if container.expression is not None and container.script is None and document is not None:
            facts.data[container.name] = _json([document], container, job.url, facts, job.is_apart)
    return facts


def _json(
    documents: list[Any], container: Container, base: str, facts: PageFacts, is_apart: bool
) -> list[dict[str, Any]]:
    try:
        return json_records(
            documents, container, base, facts.counts, EvaluationBudget(BUDGET_APART if is_apart else BUDGET)
        )
    except BudgetExceeded as exc:
        if not is_apart:
            raise NeedsApart from exc
        column(facts.counts, container.path)[TYPE_ERRORS] += 1
        return []


def _is_json(job: PageJob) -> bool:
    if job.content_type:
        return job.content_type.endswith(("/json", "+json"))
    return job.html.lstrip()[:1] in ("{", "[")


def _page(tree: Tree, parts: frozenset[str], links: PageLinks, job: PageJob, base: str) -> dict[str, Any]:
    page: dict[str, Any] = {"language": language(tree)}
    if "text" in parts:
        page["text"] = readable(tree, job.html, job.url, as_markdown=False)
    if "markdown" in parts:
        page["markdown"] = readable(tree, job.html, job.url, as_markdown=True)
    if "metadata" in parts:
        page["metadata"] = metadata(tree, links, base)
    if "structured" in parts:
        page["structured"] = structured(tree, base)
    if "links" in parts:
        page["links"] = resolve_links(links.hrefs, base)[:PAGE_LINKS_SHOWN]
    return page
