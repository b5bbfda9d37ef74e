"""The product plan translates a task of the shop family to the extraction parameters of the crawl that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.extraction_plan import find_plan_problems
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.products.product import ProductPage

CONTAINER = "product"
"""Name of the selector of the element that is one product; without it the page is one."""
_DEFAULTS: Mapping[str, Mapping[str, str]] = {"price": {"type": "price"}, "image": {"attribute": "src"}}


def extraction_parameters(selectors: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the extraction parameters: structured data always, the task's selectors as fields of one container."""
    parameters: dict[str, Any] = {"page": ["structured", "metadata"]}
    fields = {
        name: _complete_field(name, selector) for name, selector in (selectors or {}).items() if name != CONTAINER
    }
    if fields:
        container = {"container": selectors[CONTAINER]} if selectors and CONTAINER in selectors else {}
        parameters["extract"] = {CONTAINER: {**container, "fields": fields}}
    return parameters


def selector_problems(selectors: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return what is wrong with selectors, each by the name the task has for it."""
    problems = []
    for problem in find_plan_problems(extraction_parameters(selectors)):
        path = problem.path.removeprefix(f"extract.{CONTAINER}.")
        name = CONTAINER if path.startswith("container") else path.removeprefix("fields.").partition(".")[0]
        problems.append((f"selectors.{name}", problem.detail))
    if selectors and set(selectors) == {CONTAINER}:
        problems.append((f"selectors.{CONTAINER}", "stands alone: name at least a title and a price or an id in it"))
    return problems


def make_product_page(url: str, facts: PageFacts) -> ProductPage:
    metadata = facts.page.get("metadata", {})
    return ProductPage(
        url, facts.page.get("structured", {}), metadata.get("canonical"), facts.title, facts.data.get(CONTAINER, ())
    )


def _complete_field(name: str, selector: Any) -> Any:
    defaults = _DEFAULTS.get(name, {})
    if isinstance(selector, str):
        return {"selector": selector, **defaults} if defaults else selector
    return {**defaults, **selector} if "type" not in selector and "attribute" not in selector else selector
