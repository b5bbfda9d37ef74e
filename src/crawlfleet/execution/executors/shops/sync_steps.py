"""What a sync of a shop is made of: a crawl, a search, a look at what was not met, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import msgspec

from crawlfleet.execution.crawl.engine.crawl import Crawl
from crawlfleet.execution.crawl.engine.plan import DEFAULT_CONCURRENCY
from crawlfleet.execution.crawl.frontier.urls import canonical
from crawlfleet.execution.crawl.products.product import shop_of
from crawlfleet.execution.executors.builtin.web_crawl import failure_of
from crawlfleet.execution.executors.shops.product_crawler import Seen, Shopper, item_of
from crawlfleet.execution.executors.shops.product_visits import (
    ERROR_CHARS,
    FAILED,
    SUCCESS,
    fitting,
    look_again,
    master_of,
    sync_began,
)
from crawlfleet.execution.executors.shops.shop_schema import CRAWL_NAMES
from crawlfleet.execution.sdk import TaskContext, TaskError
from crawlfleet.model.product import SyncCounts
from crawlfleet.wire.products import ANSWER_PRODUCTS, ReportDown, ReportUp, product_in

CRAWL_PAGES, CRAWL_DEPTH = 10_000, 20
SEARCH_PAGES = 50
"""Of one keyword, results and products together."""
NOTED = 20
LISTED = 100
"""Products of each kind that the result of a sync names; all of them are items."""
KINDS = ("new", "changed", "gone")
_REPORT = msgspec.json.Decoder(ReportDown)


async def crawl_shop(context: TaskContext, shopper: Shopper) -> dict[str, Any]:
    asked = _asked(context)
    plan = shopper.plan(
        {"depth": CRAWL_DEPTH, "max_pages": CRAWL_PAGES, "sitemaps": True, **asked, "url": context.parameters["url"]}
    )
    if "max_pages" not in asked:
        context.log(f"no max_pages was given: {CRAWL_PAGES} apply")
    seen = Seen(context, plan, asked.get("product_pages", ()))
    crawl = await shopper.crawl(plan, seen)
    if not crawl.starts_reached:
        raise failure_of(plan, crawl)
    # Whoever comes next asks what was not met: by then all that was has to be written.
    await context.send_products()
    shop = seen.shops.most_common(1)[0][0] if seen.shops else shop_of(plan.urls[0])
    result = {
        "shop": shop,
        "products": seen.products,
        "complete": crawl.stopped_by is None and not crawl.dropped,
        "metrics": _metrics(crawl),
    }
    return result | ({"notes": notes} if (notes := [*seen.notes(), *crawl.notes()][:NOTED]) else {})


async def search(context: TaskContext, shopper: Shopper, url: str, keywords: Sequence[str]) -> dict[str, Any]:
    """Result pages of each word, and the products that they link to."""
    asked = {"depth": 1, "max_pages": SEARCH_PAGES, **_asked(context)}
    if asked.get("product_pages") and "follow" not in asked:
        asked["follow"] = {"allow": list(asked["product_pages"])}
    asked.pop("sitemaps", None)
    details: list[dict[str, Any]] = []
    failures: list[TaskError] = []
    for keyword in dict.fromkeys(keywords):
        plan = shopper.plan({**asked, "url": url.replace("{keyword}", quote_plus(keyword))})
        seen = Seen(context, plan, asked.get("product_pages", ()))
        crawl = await shopper.crawl(plan, seen)
        if crawl.starts_reached:
            found = {"status": SUCCESS, "products": seen.products, "pages": crawl.pages}
        else:
            failures.append(failure_of(plan, crawl))
            found = {"status": FAILED, "error": str(failures[-1])[:ERROR_CHARS]}
        details.append({"keyword": keyword, **found})
        context.progress(keywords=len(details), products=sum(one.get("products", 0) for one in details))
    if len(failures) == len(details):
        # One that may pass decides, so that the task is tried again.
        raise min(failures, key=lambda failure: failure.permanent)
    failed = len(failures)
    await context.send_products()
    counts = {"total": len(details), "success": len(details) - failed, "failed": failed}
    return {**counts, "details": fitting(details)}


async def look_at_known(context: TaskContext, shopper: Shopper, shop: str | None = None) -> dict[str, Any]:
    asked = context.parameters
    at_once = asked.get("concurrency", DEFAULT_CONCURRENCY)
    shop = shop or shop_of(canonical(asked["url"]) or asked["url"])
    counts = await look_again(context, shopper, shop, sync_began(context), at_once, asked.get("delay_s", 0.0))
    await context.send_products()
    return {"shop": shop, **counts}


async def report(context: TaskContext, steps: Mapping[str, Any]) -> dict[str, Any]:
    """What has become of the shop's products since the sync began: as sets, before and after."""
    crawled = steps.get("crawl") or {}
    url = context.parameters["url"]
    shop, since = crawled.get("shop") or shop_of(canonical(url) or url), sync_began(context)
    listed: dict[str, list[str]] = {}
    counts = SyncCounts()
    for kind in KINDS:
        listed[kind] = []
        after = 0
        while True:
            asked = msgspec.json.encode(ReportUp(shop, since, kind, after))
            found = _REPORT.decode(await master_of(context).send_request("products:report", asked))
            counts = SyncCounts(*found.counts)
            for key, body in found.products:
                listed[kind] += [body.id] if len(listed[kind]) < LISTED else []
                await context.item({"change": kind, **item_of(product_in(body))})
                after = key
            if len(found.products) < ANSWER_PRODUCTS:
                break
    notes = [note for step in steps.values() if isinstance(step, Mapping) for note in step.get("notes", ())]
    result = {
        "shop": shop,
        **counts._asdict(),
        "complete": bool(crawled.get("complete")) and not counts.unsure,
        "products": listed,
        "steps": {name: _short(step) for name, step in steps.items() if step},
    }
    return result | ({"notes": notes[:NOTED]} if notes else {})


def _asked(context: TaskContext) -> dict[str, Any]:
    """What the task says of the crawl itself; the rest is the shopper's."""
    return {name: context.parameters[name] for name in CRAWL_NAMES if name in context.parameters}


def _short(step: Any) -> Any:
    return {name: value for name, value in step.items() if name in _SHORT} if isinstance(step, Mapping) else None


_SHORT = frozenset({"products", "complete", "looked_at", "gone", "unsure", "total", "success", "failed"})


def _metrics(crawl: Crawl) -> dict[str, Any]:
    return {
        "pages_crawled": crawl.pages,
        "data_size": crawl.data_bytes,
        "pages_failed": crawl.errors.total(),
        "pages_skipped": crawl.skipped,
        "errors": dict(crawl.errors),
        "stopped_by": crawl.stopped_by,
    }
