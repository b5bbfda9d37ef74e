"""The built-in task types, as far as a master needs to know them. Their code runs on nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.crawl import CrawlLimits, CrawlUrl


@dataclass(frozen=True, slots=True)
class ShopTypes:
    """The task types of the shop family, and the parameters that the steps of a shop flow inherit."""

    single_product: str
    batch_products: str
    shop_crawl: str
    search_keywords: str
    full_sync: str
    visit_parameters: Sequence[str]
    """Names of the parameters of every type that visits pages."""
    crawl_parameters: Sequence[str]
    """Names of the parameters of the types that follow links."""
    default_batch_size: int
    """Number of products in one batch where the task gives none."""


class CrawlSeeds(NamedTuple):
    """The first URLs, limits and parameters of a crawl over many nodes."""

    limits: CrawlLimits
    urls: Sequence[CrawlUrl]
    parameters: Mapping[str, Any]
    """The parameters of each member's task."""


class CrawlEngine(Protocol):
    """The crawl engine of this release: it checks the parameters of crawls and adds up the counts of their members."""

    @property
    def task_type(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Any]: ...

    def problems(self, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the problems of parameters that fit the schema: path and detail of each."""
        ...

    def seeds(self, parameters: Mapping[str, Any], members: int) -> CrawlSeeds:
        """Read the seeds from parameters without problems. Raises InvalidInput with the parameter as its field."""
        ...

    def merge_field_counts(self, reports: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
        """Add up, over the reports of members, what each extracted field matched."""
        ...

    def never_matched_note(self, paths: Sequence[str], pages: int) -> str: ...

    def is_never_matched_note(self, note: str) -> bool: ...
