"""Checks of the shop family's parameters beyond their schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.crawl.fetch import header_profiles
from crawlfleet.execution.crawl.frontier import follow_config
from crawlfleet.execution.crawl.frontier.patterns import BadRule, Patterns
from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.crawl.products import product_plan

MAX_SHOWN = 20


def visit_problems(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    urls = [("url", parameters["url"])] if "url" in parameters else []
    urls += [(f"urls[{index}]", url) for index, url in enumerate(parameters.get("urls", ()))]
    problems = [(field, f"{url!r} is no URL of a page") for field, url in urls if canonical_url(url) is None]
    return (
        problems[:MAX_SHOWN]
        + product_plan.selector_problems(parameters.get("selectors"))
        + header_profiles.header_problems(parameters)
    )


def crawl_problems(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    problems = visit_problems(parameters) + follow_config.find_follow_problems(parameters)
    patterns = parameters.get("product_pages", ())
    try:
        Patterns(patterns, [f"product_pages[{index}]" for index in range(len(patterns))])
    except BadRule as exc:
        problems.append((exc.field, exc.detail))
    return problems


def search_problems(parameters: Mapping[str, Any], field: str) -> list[tuple[str, str]]:
    url = parameters.get(field)
    if url is not None and "{keyword}" not in url:
        return [(field, "has no {keyword} in it, where the word stands")]
    return []
