"""Adapters of the built-in task types in `execution`, for the services of `control` that need to know about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.execution.crawl.parse.extract import field_counts
from crawlfleet.execution.executors.builtin.batch_products import BatchProducts
from crawlfleet.execution.executors.builtin.full_sync import FullSync
from crawlfleet.execution.executors.builtin.search_keywords import SearchKeywords
from crawlfleet.execution.executors.builtin.shop_crawl import ShopCrawl
from crawlfleet.execution.executors.builtin.single_product import SingleProduct
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.shops.shop_schema import CRAWL_NAMES, DEFAULT_BATCH_SIZE, VISIT_NAMES
from crawlfleet.ports.built_in_types import CrawlSeeds, ShopTypes

SHOP_TYPES = ShopTypes(
    single_product=SingleProduct.task_type,
    batch_products=BatchProducts.task_type,
    shop_crawl=ShopCrawl.task_type,
    search_keywords=SearchKeywords.task_type,
    full_sync=FullSync.task_type,
    visit_parameters=VISIT_NAMES,
    crawl_parameters=CRAWL_NAMES,
    default_batch_size=DEFAULT_BATCH_SIZE,
)


class WebCrawlEngine:
    """The engine of `web_crawl`, as an implementation of `ports.built_in_types.CrawlEngine`."""

    task_type = WebCrawl.task_type
    schema = WebCrawl.schema

    def problems(self, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        return WebCrawl.problems(parameters)

    def seeds(self, parameters: Mapping[str, Any], members: int) -> CrawlSeeds:
        # The first call imports it: only a master that receives a crawl over many nodes needs the engine.
        from crawlfleet.execution.crawl.shared.shared_crawl_seeds import BadCrawl, make_crawl_seeds

        try:
            seeds = make_crawl_seeds(parameters, members)
        except BadCrawl as exc:
            raise InvalidInput(exc.detail, field=exc.field) from exc
        return CrawlSeeds(seeds.limits, seeds.urls, seeds.parameters)

    def merge_field_counts(self, reports: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
        return field_counts.merge_reports(list(reports))

    def never_matched_note(self, paths: Sequence[str], pages: int) -> str:
        return field_counts.never_matched_note(list(paths), pages)

    def is_never_matched_note(self, note: str) -> bool:
        return note.startswith(field_counts.NEVER_MATCHED)
