"""What several types of the shop family do: look at one product, at many, and at those that were not met again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from crawlfleet.execution.crawl.engine.crawl import first_of
from crawlfleet.execution.executors.shops.product_crawler import Look, Shopper, gone
from crawlfleet.execution.sdk import MasterLink, TaskContext, TaskError
from crawlfleet.model.ids import made_at, parse
from crawlfleet.model.instants import Instant
from crawlfleet.wire.products import ANSWER_PRODUCTS, UnseenBody, UnseenDown, UnseenUp

DETAILS_BYTES = 40 << 10
ERROR_CHARS = 300
SUCCESS, FAILED, IS_GONE = "success", "failed", "gone"
T = TypeVar("T")
_UNSEEN = msgspec.json.Decoder(UnseenDown)
_encode = msgspec.json.Encoder().encode


async def looked_at(context: TaskContext, shopper: Shopper, url: str, known: str | None = None) -> dict[str, Any]:
    """The result of a visit to one product; of a `known` one it is one, too, that it is gone. Raises TaskError."""
    look = await shopper.look(url)
    if known is not None and _has_left(look, known):
        await context.product(gone(known, url))
        return {"product_id": known, "url": url, "status": IS_GONE}
    if look.product is not None:
        return {"product_id": look.product.id, "url": url, "status": SUCCESS}
    failure = look.failure
    if failure is not None:
        raise TaskError(str(failure), error=failure.error, permanent=failure.permanent)
    message = f"{url} shows no product: neither structured data nor the selectors name one"
    if look.is_unreadable:
        message = f"{url} shows no product: its structured data is no JSON, and no selectors name one"
    raise TaskError(message, error="parse", permanent=True)


async def looked_at_all(context: TaskContext, shopper: Shopper, urls: Sequence[str], batch_size: int) -> dict[str, Any]:
    """One batch after the other, the pages of each at once."""
    details: list[dict[str, Any]] = []
    for start in range(0, len(urls), batch_size):
        details += await at_once_all([_told(context, shopper, url) for url in urls[start : start + batch_size]])
        context.progress(done=len(details), total=len(urls))
    return await summary(context, details)


async def summary(context: TaskContext, details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of many visits. What does not fit in a result is among the items of the task, where all of it is."""
    failed = sum(detail["status"] == FAILED for detail in details)
    result = {"total": len(details), "success": len(details) - failed, "failed": failed}
    shown = fitting(details)
    if len(shown) < len(details):
        for detail in details:
            await context.item(detail)
        result["details_truncated"] = True
    return {**result, "details": shown}


def fitting(details: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of them, as many as a result has room for."""
    room, shown = DETAILS_BYTES, []
    for detail in details:
        room -= len(_encode(detail)) + 1
        if room < 0:
            break
        shown.append(detail)
    return shown


async def look_again(
    context: TaskContext, shopper: Shopper, shop: str, since: Instant, at_once: int, delay_s: float
) -> dict[str, int]:
    """Visits the products of a shop that were not seen since then: each is there, gone, or nobody can tell now."""
    counts = {"looked_at": 0, "gone": 0, "unsure": 0}
    room = asyncio.Semaphore(1 if delay_s else at_once)

    async def one(unseen: UnseenBody) -> None:
        async with room:
            look = await shopper.look(unseen.url)
            if delay_s:
                await asyncio.sleep(delay_s)
        counts["looked_at"] += 1
        if _has_left(look, unseen.id):
            counts["gone"] += 1
            await context.product(gone(unseen.id, unseen.url)._replace(shop=shop))
        elif look.product is None:
            counts["unsure"] += 1
        context.progress(**counts)

    async for page in _unseen(context, shop, since):
        await at_once_all([one(unseen) for unseen in page])
    return counts


def sync_began(context: TaskContext) -> Instant:
    """The same for every attempt: when the task was made, by the clock of the master that made it."""
    said = context.parameters.get("since")
    return int(said) if said is not None else made_at(parse(context.task_id, "task", field="task_id"))


def master_of(context: TaskContext) -> MasterLink:
    if context.master is None:
        raise TaskError("products are known to masters, and there is none to ask", error="internal", permanent=True)
    return context.master


async def _unseen(context: TaskContext, shop: str, since: Instant) -> AsyncIterator[Iterable[UnseenBody]]:
    after = 0
    while True:
        answer = await master_of(context).send_request("products:unseen", _encode(UnseenUp(shop, since, after)))
        page = _UNSEEN.decode(answer).products
        if page:
            yield page
        if len(page) < ANSWER_PRODUCTS:
            return
        after = page[-1].key


async def at_once_all(visits: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What one of them raises ends the others, and is raised as it is: a host that is away parks the task."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(visit) for visit in visits]
    except BaseExceptionGroup as raised:
        raise first_of(raised) from None
    return [task.result() for task in tasks]


async def _told(context: TaskContext, shopper: Shopper, url: str) -> dict[str, Any]:
    try:
        return await looked_at(context, shopper, url)
    except TaskError as exc:
        return {"product_id": None, "url": url, "status": FAILED, "error": str(exc)[:ERROR_CHARS]}


def _has_left(look: Look, product_id: str) -> bool:
    """Its page is not there, shows none, or shows another."""
    return look.is_gone or (look.product is not None and look.product.id != product_id)
