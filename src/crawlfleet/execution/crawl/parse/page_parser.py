"""The page parser extracts links and records from one page. It is pure: text in, facts out, in any process."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from crawlfleet.execution.crawl.frontier.urls import canonical_url, resolve_links
from crawlfleet.execution.crawl.parse.extract import flat_selectors
from crawlfleet.execution.crawl.parse.extract.dom import Dom, LexborDom, XPathDom, page_title
from crawlfleet.execution.crawl.parse.extract.extraction_plan import Container, ExtractionPlan, compile_plan_source
from crawlfleet.execution.crawl.parse.extract.field_counts import TYPE_ERRORS, FieldCounts, path_counts
from crawlfleet.execution.crawl.parse.extract.json_pages import (
    BUDGET,
    PROCESS_BUDGET,
    decode_json,
    decode_scripts,
    extract_json_records,
)
from crawlfleet.execution.crawl.parse.extract.main_text import extract_main_text
from crawlfleet.execution.crawl.parse.extract.metadata import page_language, page_metadata
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks, extract_page_links
from crawlfleet.execution.crawl.parse.extract.records import extract_records
from crawlfleet.execution.crawl.parse.extract.structured import structured_data
from crawlfleet.scheduling.flows.expressions import BudgetExceeded, EvaluationBudget

MAX_SHOWN_LINKS = 1_000
MAX_NEXT_LINKS = 10
_BEGINNING_CHARS = 1_000
_BEGINNING = re.compile(
    r"(?:<!--[^>]*-->\s*|<\?xml[^>]*>\s*)*<(?:!doctype\s+html|html|head|body|title)\b", re.IGNORECASE
)


class ListMarks(msgspec.Struct, array_like=True, frozen=True):
    """The selectors for the next page of a list and for whether it goes on; empty for none."""

    next: str = ""
    more: str = ""


NO_MARKS = ListMarks()


class ParseRequest(msgspec.Struct, array_like=True):
    html: str
    url: str
    plan: bytes
    """Value of `source` of the extraction plan, which the parser compiles once per process."""
    container: str | None
    """Container that was recognised on an earlier page."""
    follow: bool
    """Whether the links of the page are needed."""
    is_isolated: bool = False
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
    counts: FieldCounts = {}


class NeedsParserProcess(Exception):
    """Raised when a page is nested too deeply, or holds too much, to be parsed in this process."""


def parse_page(request: ParseRequest) -> PageFacts:
    plan = compile_plan_source(request.plan)
    if plan.has_json and _is_json(request):
        return _parse_json_page(request, plan)
    dom: Dom
    if plan.by_xpath:
        dom = XPathDom(request.html)
    else:
        dom = LexborDom(request.html)
        if (plan.descents or request.marks != NO_MARKS) and not request.is_isolated and dom.is_deep:
            raise NeedsParserProcess
    links, base = PageLinks(), request.url
    if (request.follow or not plan.is_empty) and _is_markup(request):
        links = extract_page_links(dom)
        base = (canonical_url(links.base, request.url) if links.base else None) or request.url
    facts = PageFacts(base=base)
    if plan.page or plan.is_only_page:
        facts.title = page_title(dom)
    if request.follow:
        facts.links = links
        _apply_list_marks(dom, request.marks, facts)
    if plan.flat.selectors:
        _extract_flat(dom, plan, request.container, facts)
    for container in plan.containers:
        if container.expression is None:
            facts.data[container.name] = extract_records(dom, container, base, facts.counts)
        else:
            facts.data[container.name] = _extract_json(
                decode_scripts(dom, container), container, base, facts, request.is_isolated
            )
    if plan.page:
        facts.page = _extract_page_parts(dom, plan.page, links, request, base)
    return facts


def _is_markup(request: ParseRequest) -> bool:
    """Return whether the text is parsed for links.

    Plain text has links only if it begins as a page does: the source of a manual has links in its examples.
    """
    if not request.content_type or request.content_type.endswith(("html", "xml")):
        return True
    return _BEGINNING.match(request.html[:_BEGINNING_CHARS].lstrip("\ufeff \t\r\n")) is not None


def _apply_list_marks(dom: Dom, marks: ListMarks, facts: PageFacts) -> None:
    if marks.next:
        hrefs = (dom.get_attribute(link, "href") for link in dom.select_css(marks.next)[:MAX_NEXT_LINKS])
        facts.next = [href for href in hrefs if href]
    if marks.more:
        facts.goes_on = dom.select_first(marks.more) is not None


def _extract_flat(dom: Dom, plan: ExtractionPlan, container: str | None, facts: PageFacts) -> None:
    matches = flat_selectors.match_selectors(dom, plan.flat)
    facts.container = container or flat_selectors.find_container(dom, matches)
    if facts.container is not None:
        facts.records = flat_selectors.build_records(dom, plan.flat, matches, facts.container)
    else:
        facts.lists = flat_selectors.build_lists(dom, matches)
    flat_selectors.count_matches(facts.counts, matches, facts.container, facts.records)


def _parse_json_page(request: ParseRequest, plan: ExtractionPlan) -> PageFacts:
    facts = PageFacts(base=request.url)
    document = decode_json(request.html)
    for container in plan.containers:
        if container.expression is not None and container.script is None and document is not None:
            facts.data[container.name] = _extract_json([document], container, request.url, facts, request.is_isolated)
    return facts


def _extract_json(
    documents: list[Any], container: Container, base: str, facts: PageFacts, is_isolated: bool
) -> list[dict[str, Any]]:
    try:
        return extract_json_records(
            documents, container, base, facts.counts, EvaluationBudget(PROCESS_BUDGET if is_isolated else BUDGET)
        )
    except BudgetExceeded as exc:
        if not is_isolated:
            raise NeedsParserProcess from exc
        path_counts(facts.counts, container.path)[TYPE_ERRORS] += 1
        return []


def _is_json(request: ParseRequest) -> bool:
    if request.content_type:
        return request.content_type.endswith(("/json", "+json"))
    return request.html.lstrip()[:1] in ("{", "[")


def _extract_page_parts(
    dom: Dom, parts: frozenset[str], links: PageLinks, request: ParseRequest, base: str
) -> dict[str, Any]:
    page: dict[str, Any] = {"language": page_language(dom)}
    if "text" in parts:
        page["text"] = extract_main_text(dom, request.html, request.url, as_markdown=False)
    if "markdown" in parts:
        page["markdown"] = extract_main_text(dom, request.html, request.url, as_markdown=True)
    if "metadata" in parts:
        page["metadata"] = page_metadata(dom, links, base)
    if "structured" in parts:
        page["structured"] = structured_data(dom, base)
    if "links" in parts:
        page["links"] = resolve_links(links.hrefs, base)[:MAX_SHOWN_LINKS]
    return page
