"""The product plan translates a task of the shop family to the extraction parameters of the crawl that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.extraction_plan import find_plan_problems
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.products.product import PageSaid

CONTAINER = "product"
"""Name of the selector of the element that is one product; without it the page is one."""
_USUAL: Mapping[str, Mapping[str, str]] = {"price": {"type": "price"}, "image": {"attribute": "src"}}


def extraction(selectors: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the extraction parameters: structured data always, the task's selectors as fields of one container."""
    asked: dict[str, Any] = {"page": ["structured", "metadata"]}
    fields = {name: _field(name, said) for name, said in (selectors or {}).items() if name != CONTAINER}
    if fields:
        container = {"container": selectors[CONTAINER]} if selectors and CONTAINER in selectors else {}
        asked["extract"] = {CONTAINER: {**container, "fields": fields}}
    return asked


def problems(selectors: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return what is wrong with selectors, each by the name the task has for it."""
    found = []
    for problem in find_plan_problems(extraction(selectors)):
        path = problem.path.removeprefix(f"extract.{CONTAINER}.")
        name = CONTAINER if path.startswith("container") else path.removeprefix("fields.").partition(".")[0]
        found.append((f"selectors.{name}", problem.detail))
    if selectors and set(selectors) == {CONTAINER}:
        found.append((f"selectors.{CONTAINER}", "stands alone: name at least a title and a price or an id in it"))
    return found


def page_said(url: str, facts: PageFacts) -> PageSaid:
    metadata = facts.page.get("metadata", {})
    return PageSaid(
        url, facts.page.get("structured", {}), metadata.get("canonical"), facts.title, facts.data.get(CONTAINER, ())
    )


def _field(name: str, said: Any) -> Any:
    usual = _USUAL.get(name, {})
    if isinstance(said, str):
        return {"selector": said, **usual} if usual else said
    return {**usual, **said} if "type" not in said and "attribute" not in said else said
