"""A page and what is asked of it, read as a crawl reads it."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan, compile_plan
from crawlfleet.execution.crawl.parse.page_parser import PageFacts, ParseRequest, parse_page

URL = "http://shop.test/list/"


def facts(html: str, parameters: dict[str, Any], *, content_type: str = "text/html", **more: Any) -> PageFacts:
    plan = compile_plan(parameters)
    return parse_page(ParseRequest(html, URL, plan.source, None, True, content_type=content_type, **more))


def things(html: str, container: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """The records of one container."""
    return facts(html, {"extract": {"things": container}}, **more).data["things"]


def problems(parameters: dict[str, Any]) -> dict[str, str]:
    try:
        compile_plan(parameters)
    except BadPlan as exc:
        return {problem.path: problem.detail for problem in exc.problems}
    return {}
