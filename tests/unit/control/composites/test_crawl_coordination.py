"""Who waits for a chunk of a crawl is woken by news, also by news that came while it was about to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from crawlfleet.control.composites.crawl_coordination import LOOK_S, Exchange
from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.composite_store import Asking, CrawlStore, Exchanged
from crawlfleet.wire.crawl import WAIT_MS, CrawlDown, CrawlUp
from tests.unit.execution.agent.agent_kit import LoopClock, monotonic, virtual

CRAWL = 7
WAIT = Exchanged(CRAWL, "wait")


class Scripted:
    """Answers executions as told; each answer takes its time, after it was decided."""

    def __init__(self, slow_s: float = 0.0) -> None:
        self.answer: Callable[[ExecutionId], Exchanged] = lambda _: WAIT
        self.asked: list[ExecutionId] = []
        self._slow_s = slow_s

    async def exchange_batches(self, asking: Asking, now: Instant) -> Exchanged:
        self.asked.append(asking.execution)
        answer = self.answer(asking.execution)
        if answer.state == "wait":
            await asyncio.sleep(self._slow_s)
        return answer


def service(store: Scripted) -> Exchange:
    return Exchange(store=cast("CrawlStore", store), clock=LoopClock())


async def ask(exchange: Exchange, execution: int, held: Sequence[int] = ()) -> CrawlDown:
    return await exchange.exchange_batch(1, 1, execution, CrawlUp(None, list(held), 0 if held else WAIT_MS))


@virtual
async def test_news_wake_who_waits_and_other_answers_do_not() -> None:
    store = Scripted()
    exchange, began = service(store), monotonic()
    waiting = asyncio.create_task(ask(exchange, 1))
    await asyncio.sleep(0.1)
    store.answer = lambda execution: WAIT if execution == 1 else Exchanged(CRAWL, "chunk", 5)
    await ask(exchange, 2)
    assert store.asked == [1, 2]
    store.answer = lambda _: Exchanged(CRAWL, "chunk", 6, is_news=True)
    await ask(exchange, 2)
    assert (await waiting).number == 6
    assert monotonic() - began < LOOK_S


@virtual
async def test_news_that_come_while_one_is_about_to_wait_are_not_missed() -> None:
    store = Scripted(slow_s=0.05)
    exchange, began = service(store), monotonic()
    waiting = asyncio.create_task(ask(exchange, 1))
    await asyncio.sleep(0.01)
    # It was decided that it waits, and it has not heard so yet.
    store.answer = lambda _: Exchanged(CRAWL, "chunk", 6, is_news=True)
    await ask(exchange, 2)
    assert (await waiting).number == 6
    assert monotonic() - began < 0.1


@virtual
async def test_news_of_other_crawls_and_old_news_wake_nobody() -> None:
    store = Scripted(slow_s=0.05)
    exchange = service(store)
    store.answer = lambda execution: Exchanged(CRAWL, "chunk", 5, is_news=True) if execution == 2 else WAIT
    await ask(exchange, 2)
    waiting = asyncio.create_task(ask(exchange, 1))
    await asyncio.sleep(0.01)
    store.answer = lambda execution: Exchanged(CRAWL + 1, "chunk", 5, is_news=True) if execution == 3 else WAIT
    await ask(exchange, 3)
    await asyncio.sleep(LOOK_S * 0.9)
    assert store.asked == [2, 1, 3]
    assert (await waiting).state == "wait"
