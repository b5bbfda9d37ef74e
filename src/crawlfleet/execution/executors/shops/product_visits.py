"""Visits to products that several types of the shop family make: one product, many, and those not seen again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from crawlfleet.execution.crawl.engine.crawl import first_exception
from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler, ProductVisit, gone_product
from crawlfleet.execution.sdk import MasterLink, TaskContext, TaskError
from crawlfleet.model.ids import made_at, parse_id
from crawlfleet.model.instants import Instant
from crawlfleet.wire.products import ANSWER_PRODUCTS, UnseenBody, UnseenDown, UnseenUp

DETAILS_BYTES = 40 << 10
ERROR_CHARS = 300
SUCCESS, FAILED, GONE_WORD = "success", "failed", "gone"
T = TypeVar("T")
_UNSEEN = msgspec.json.Decoder(UnseenDown)
_encode = msgspec.json.Encoder().encode


async def visit_product(
    context: TaskContext, shopper: ProductCrawler, url: str, known_id: str | None = None
) -> dict[str, Any]:
    """Visit one product and return the task's result; a product with a `known_id` may be gone. Raises TaskError."""
    visit = await shopper.visit_product(url)
    if known_id is not None and _is_product_gone(visit, known_id):
        await context.product(gone_product(known_id, url))
        return {"product_id": known_id, "url": url, "status": GONE_WORD}
    if visit.product is not None:
        return {"product_id": visit.product.id, "url": url, "status": SUCCESS}
    failure = visit.failure
    if failure is not None:
        raise TaskError(str(failure), error=failure.error, permanent=failure.permanent)
    message = f"{url} shows no product: neither structured data nor the selectors name one"
    if visit.is_unreadable:
        message = f"{url} shows no product: its structured data is no JSON, and no selectors name one"
    raise TaskError(message, error="parse", permanent=True)


async def visit_products(
    context: TaskContext, shopper: ProductCrawler, urls: Sequence[str], batch_size: int
) -> dict[str, Any]:
    """Visit products in batches, the pages of each batch concurrently."""
    details: list[dict[str, Any]] = []
    for start in range(0, len(urls), batch_size):
        details += await run_concurrently(
            [_visit_detail(context, shopper, url) for url in urls[start : start + batch_size]]
        )
        context.progress(done=len(details), total=len(urls))
    return await summarise_visits(context, details)


async def summarise_visits(context: TaskContext, details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise visits as a task's result. When the details do not fit, all of them become items of the task."""
    failed = sum(detail["status"] == FAILED for detail in details)
    result = {"total": len(details), "success": len(details) - failed, "failed": failed}
    details_shown = fit_details(details)
    if len(details_shown) < len(details):
        for detail in details:
            await context.item(detail)
        result["details_truncated"] = True
    return {**result, "details": details_shown}


def fit_details(details: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first details, as many as fit into a result."""
    bytes_left, fitted = DETAILS_BYTES, []
    for detail in details:
        bytes_left -= len(_encode(detail)) + 1
        if bytes_left < 0:
            break
        fitted.append(detail)
    return fitted


async def revisit_unseen(
    context: TaskContext, shopper: ProductCrawler, shop: str, since: Instant, concurrency: int, delay_s: float
) -> dict[str, int]:
    """Visit the products of a shop that were not seen since then: each is there, gone, or unsure."""
    counts = {"looked_at": 0, "gone": 0, "unsure": 0}
    semaphore = asyncio.Semaphore(1 if delay_s else concurrency)

    async def revisit(unseen: UnseenBody) -> None:
        async with semaphore:
            visit = await shopper.visit_product(unseen.url)
            if delay_s:
                await asyncio.sleep(delay_s)
        counts["looked_at"] += 1
        if _is_product_gone(visit, unseen.id):
            counts["gone"] += 1
            await context.product(gone_product(unseen.id, unseen.url)._replace(shop=shop))
        elif visit.product is None:
            counts["unsure"] += 1
        context.progress(**counts)

    async for page in _load_unseen(context, shop, since):
        await run_concurrently([revisit(unseen) for unseen in page])
    return counts


def sync_started_at(context: TaskContext) -> Instant:
    """When the task was created, by the clock of its master: the same for every attempt."""
    since = context.parameters.get("since")
    return int(since) if since is not None else made_at(parse_id(context.task_id, "task", field="task_id"))


def require_master(context: TaskContext) -> MasterLink:
    if context.master is None:
        raise TaskError("products are known to masters, and there is none to ask", error="internal", permanent=True)
    return context.master


async def _load_unseen(context: TaskContext, shop: str, since: Instant) -> AsyncIterator[Iterable[UnseenBody]]:
    after = 0
    while True:
        answer = await require_master(context).send_request("products:unseen", _encode(UnseenUp(shop, since, after)))
        page = _UNSEEN.decode(answer).products
        if page:
            yield page
        if len(page) < ANSWER_PRODUCTS:
            return
        after = page[-1].key


async def run_concurrently(visits: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run visits concurrently. The first exception ends the others and is raised as it is: HostAway parks the task."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(visit) for visit in visits]
    except BaseExceptionGroup as raised:
        raise first_exception(raised) from None
    return [task.result() for task in tasks]


async def _visit_detail(context: TaskContext, shopper: ProductCrawler, url: str) -> dict[str, Any]:
    try:
        return await visit_product(context, shopper, url)
    except TaskError as exc:
        return {"product_id": None, "url": url, "status": FAILED, "error": str(exc)[:ERROR_CHARS]}


def _is_product_gone(visit: ProductVisit, product_id: str) -> bool:
    """Whether the page of a product does not exist, shows no product, or shows another."""
    return visit.is_gone or (visit.product is not None and visit.product.id != product_id)
