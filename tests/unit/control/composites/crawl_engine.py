"""A crawl engine for tests of services that only know the port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model.crawl import CrawlLimits, CrawlUrl
from crawlfleet.ports.built_in_types import CrawlSeeds

NEVER = "never: "


class ToyEngine:
    """Its task type takes `urls`. It cannot crawl `ftp:`, and adds up nothing but matches."""

    task_type = "toy_crawl"
    schema: Mapping[str, Any] = {
        "type": "object",
        "required": ["urls"],
        "properties": {"urls": {"type": "array", "items": {"type": "string"}}},
    }

    def problems(self, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [] if parameters["urls"] else [("parameters.urls", "none")]

    def seeds(self, parameters: Mapping[str, Any], members: int) -> CrawlSeeds:
        if any(url.startswith("ftp:") for url in parameters["urls"]):
            raise InvalidInput("no page of the web", field="urls")
        urls = [CrawlUrl(url, 0) for url in parameters["urls"]]
        return CrawlSeeds(CrawlLimits(members), urls, {**parameters, "is_member": True})

    def merge_field_counts(self, reports: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
        totals: dict[str, dict[str, Any]] = {}
        for report in reports:
            for path, counts in report.items():
                totals.setdefault(path, {"matches": 0})["matches"] += counts["matches"]
        return totals

    def never_matched_note(self, paths: Sequence[str], pages: int) -> str:
        return f"{NEVER}{', '.join(paths)} on {pages} pages"

    def is_never_matched_note(self, note: str) -> bool:
        return note.startswith(NEVER)
