"""The steps of a shop sync: a crawl, a search, a check of known products, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import msgspec

from crawlfleet.execution.crawl.engine.crawl import Crawl
from crawlfleet.execution.crawl.engine.plan import DEFAULT_CONCURRENCY
from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.crawl.products.product import shop_name
from crawlfleet.execution.executors.builtin.web_crawl import start_failure
from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler, SeenProducts, product_item
from crawlfleet.execution.executors.shops.product_visits import (
    ERROR_CHARS,
    FAILED,
    SUCCESS,
    fit_details,
    require_master,
    revisit_unseen,
    sync_started_at,
)
from crawlfleet.execution.executors.shops.shop_schema import CRAWL_NAMES
from crawlfleet.execution.sdk import TaskContext, TaskError
from crawlfleet.model.product import SyncCounts
from crawlfleet.wire.products import ANSWER_PRODUCTS, ReportDown, ReportUp, product_from_body

CRAWL_PAGES, CRAWL_DEPTH = 10_000, 20
SEARCH_PAGES = 50
"""Maximum number of pages for one keyword, results and products together."""
MAX_NOTES = 20
MAX_LISTED = 100
"""Maximum number of products of each kind in the result of a sync; all of them are items."""
KINDS = ("new", "changed", "gone")
_REPORT = msgspec.json.Decoder(ReportDown)


async def crawl_shop(context: TaskContext, shopper: ProductCrawler) -> dict[str, Any]:
    parameters = _crawl_parameters(context)
    plan = shopper.build_plan(
        {
            "depth": CRAWL_DEPTH,
            "max_pages": CRAWL_PAGES,
            "sitemaps": True,
            **parameters,
            "url": context.parameters["url"],
        }
    )
    if "max_pages" not in parameters:
        context.log(f"no max_pages was given: {CRAWL_PAGES} apply")
    seen = SeenProducts(context, plan, parameters.get("product_pages", ()))
    crawl = await shopper.run_crawl(plan, seen)
    if not crawl.starts_reached:
        raise start_failure(plan, crawl)
    # The next step asks for products that were not seen: those that were have to be written by then.
    await context.send_products()
    shop = seen.shops.most_common(1)[0][0] if seen.shops else shop_name(plan.urls[0])
    result = {
        "shop": shop,
        "products": seen.products,
        "complete": crawl.stopped_by is None and not crawl.dropped_count,
        "metrics": _crawl_metrics(crawl),
    }
    return result | ({"notes": notes} if (notes := [*seen.notes(), *crawl.collect_notes()][:MAX_NOTES]) else {})


async def search_shop(
    context: TaskContext, shopper: ProductCrawler, url: str, keywords: Sequence[str]
) -> dict[str, Any]:
    """Crawl the result pages of each keyword, and the products that they link to."""
    parameters = {"depth": 1, "max_pages": SEARCH_PAGES, **_crawl_parameters(context)}
    if parameters.get("product_pages") and "follow" not in parameters:
        parameters["follow"] = {"allow": list(parameters["product_pages"])}
    parameters.pop("sitemaps", None)
    details: list[dict[str, Any]] = []
    failures: list[TaskError] = []
    for keyword in dict.fromkeys(keywords):
        plan = shopper.build_plan({**parameters, "url": url.replace("{keyword}", quote_plus(keyword))})
        seen = SeenProducts(context, plan, parameters.get("product_pages", ()))
        crawl = await shopper.run_crawl(plan, seen)
        if crawl.starts_reached:
            detail = {"status": SUCCESS, "products": seen.products, "pages": crawl.pages}
        else:
            failures.append(start_failure(plan, crawl))
            detail = {"status": FAILED, "error": str(failures[-1])[:ERROR_CHARS]}
        details.append({"keyword": keyword, **detail})
        context.progress(keywords=len(details), products=sum(detail.get("products", 0) for detail in details))
    if len(failures) == len(details):
        # One that may pass decides, so that the task is tried again.
        raise min(failures, key=lambda failure: failure.permanent)
    failed = len(failures)
    await context.send_products()
    counts = {"total": len(details), "success": len(details) - failed, "failed": failed}
    return {**counts, "details": fit_details(details)}


async def check_known_products(
    context: TaskContext, shopper: ProductCrawler, shop: str | None = None
) -> dict[str, Any]:
    parameters = context.parameters
    concurrency = parameters.get("concurrency", DEFAULT_CONCURRENCY)
    shop = shop or shop_name(canonical_url(parameters["url"]) or parameters["url"])
    counts = await revisit_unseen(
        context, shopper, shop, sync_started_at(context), concurrency, parameters.get("delay_s", 0.0)
    )
    await context.send_products()
    return {"shop": shop, **counts}


async def report_changes(context: TaskContext, steps: Mapping[str, Any]) -> dict[str, Any]:
    """Report the shop's products that are new, changed or gone since the sync started."""
    crawled = steps.get("crawl") or {}
    url = context.parameters["url"]
    shop, since = crawled.get("shop") or shop_name(canonical_url(url) or url), sync_started_at(context)
    listed: dict[str, list[str]] = {}
    counts = SyncCounts()
    for kind in KINDS:
        listed[kind] = []
        after = 0
        while True:
            request = msgspec.json.encode(ReportUp(shop, since, kind, after))
            answer = _REPORT.decode(await require_master(context).send_request("products:report", request))
            counts = SyncCounts(*answer.counts)
            for key, body in answer.products:
                listed[kind] += [body.id] if len(listed[kind]) < MAX_LISTED else []
                await context.item({"change": kind, **product_item(product_from_body(body))})
                after = key
            if len(answer.products) < ANSWER_PRODUCTS:
                break
    notes = [note for step in steps.values() if isinstance(step, Mapping) for note in step.get("notes", ())]
    result = {
        "shop": shop,
        **counts._asdict(),
        "complete": bool(crawled.get("complete")) and not counts.unsure,
        "products": listed,
        "steps": {name: _shorten_step(step) for name, step in steps.items() if step},
    }
    return result | ({"notes": notes[:MAX_NOTES]} if notes else {})


def _crawl_parameters(context: TaskContext) -> dict[str, Any]:
    """The parameters of the task that are about the crawl; the others belong to the product crawler."""
    return {name: context.parameters[name] for name in CRAWL_NAMES if name in context.parameters}


def _shorten_step(step: Any) -> Any:
    return {name: value for name, value in step.items() if name in _STEP_FIELDS} if isinstance(step, Mapping) else None


_STEP_FIELDS = frozenset({"products", "complete", "looked_at", "gone", "unsure", "total", "success", "failed"})


def _crawl_metrics(crawl: Crawl) -> dict[str, Any]:
    return {
        "pages_crawled": crawl.pages,
        "data_size": crawl.data_bytes,
        "pages_failed": crawl.errors.total(),
        "pages_skipped": crawl.skipped,
        "errors": dict(crawl.errors),
        "stopped_by": crawl.stopped_by,
    }
