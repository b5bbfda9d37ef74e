"""Members of one crawl in one process, over a real store: each with its own engine, each may be lost at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from crawlfleet.control.composites.crawl_coordination import Exchange
from crawlfleet.execution.crawl.shared.shared_crawl_seeds import make_crawl_seeds
from crawlfleet.execution.crawl.shared.shared_page_notes import OWN
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.sdk import TaskContext
from crawlfleet.model.crawl import CrawlState
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import GroupId
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.clock import SystemClock
from crawlfleet.ports.task_store import NewCrawl, NewGroup, Submission
from crawlfleet.wire.crawl import CrawlUp
from testkit.factories import Kit, Run
from testkit.patience import PATIENCE_S
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Heard


class Link:
    """A member's way to the master, with the agent's part: items that came before a report belong to it."""

    def __init__(self, spread: Spread, run: Run, heard: Heard) -> None:
        self._spread = spread
        self._run = run
        self._heard = heard
        self._chunks = self._archived = 0

    async def report_crawl(self, body: bytes) -> bytes:
        self._spread.note_exchange()
        first = self._chunks
        if self._heard.items:
            self._spread.uploaded[self._run.execution, self._chunks] = self._heard.items[:]
            self._heard.items.clear()
            self._chunks += 1
        archived = self._archived
        if self._heard.records:
            self._spread.archived[self._run.execution, self._archived] = b"".join(self._heard.records)
            self._heard.records.clear()
            self._archived += 1
        up = msgspec.json.decode(body, type=CrawlUp)
        run, service = self._run, self._spread.service
        ranges = (first, self._chunks), (archived, self._archived)
        down = await service.exchange_batch(run.node.id, run.task, run.execution, up, *ranges)
        return msgspec.json.encode(down)

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        raise AssertionError(f"a crawl asks nobody about {endpoint}")


class Spread:
    def __init__(self, kit: Kit, parameters: Mapping[str, Any], members: int, *, earlier: Spread | None = None) -> None:
        """`earlier`: the one that is meant, whatever `since` says."""
        self._kit = kit
        self._earlier = earlier
        self._seeds = make_crawl_seeds(parameters, members)
        self._members = members
        self.service = Exchange(store=kit.store, clock=SystemClock())
        self.uploaded: dict[tuple[int, int], list[dict[str, Any]]] = {}
        self.archived: dict[tuple[int, int], bytes] = {}
        self.crawl: GroupId = 0
        self.results: list[dict[str, Any]] = []
        self._lost_after = 0
        self._is_time = asyncio.Event()

    async def make(self) -> None:
        new = NewCrawl(self._seeds.limits, self._seeds.urls)
        group = NewGroup(self._kit.ids.new_id(), "shop", kind=GroupKind.CRAWL, crawl=new)
        added = await self._kit.store.add_tasks([Submission([], group=group)], self._kit.now)
        assert added.answers[0].group == group.id
        self.crawl = group.id

    async def run(self, *, lose_after: int | None = None) -> None:
        """Until the crawl is over. A first member works alone and is lost after so many exchanges."""
        await self.make()
        async with asyncio.timeout(PATIENCE_S):
            if lose_after is not None:
                lost = await self.member()
                self._lost_after = lose_after
                losing = asyncio.create_task(self.work(lost))
                await self._is_time.wait()
                # First the store gives it up, then it learns of it: what it says between is refused.
                await self._kit.end(lost.node)
                await asyncio.sleep(0.05)
                losing.cancel()
                await asyncio.gather(losing, return_exceptions=True)
            runs = [await self.member() for _ in range(self._members)]
            self.results += await asyncio.gather(*(self.work(run) for run in runs))

    def note_exchange(self) -> None:
        self._lost_after -= 1
        if self._lost_after == 0:
            self._is_time.set()

    async def member(self) -> Run:
        return await self._kit.run_one(await self._kit.node(), group=self.crawl, retry=RetryPolicy(0))

    async def work(self, run: Run) -> dict[str, Any]:
        heard = Heard()
        link = Link(self, run, heard)
        context = TaskContext(
            heard,
            task_id="task-1",
            execution_id="exec-1",
            task_type="web_crawl",
            parameters=self._seeds.parameters,
            allow_hosts=LOOPBACK,
            master=link,
        )
        context.earlier = self._notes
        result: dict[str, Any] = await WebCrawl().run(context)
        return result

    async def _notes(self, of: str) -> AsyncIterator[bytes]:
        of_whom = self if of == OWN else self._earlier
        assert of_whom is not None
        for item in await of_whom.items():
            yield msgspec.json.encode(item) + b"\n" if "_page" in item else b""

    async def state(self) -> CrawlState:
        return (await self._kit.store.crawl_states([self.crawl]))[self.crawl]

    async def items(self) -> list[dict[str, Any]]:
        """What counts, in an order that does not depend on who did it."""
        parts = await self._kit.store.crawl_parts(self.crawl, 0, 10_000)
        found = [
            item for part in parts for n in range(part.first, part.last) for item in self.uploaded[part.execution, n]
        ]
        return sorted(found, key=lambda item: json.dumps(item, sort_keys=True))

    async def archive(self) -> bytes:
        """The records that count."""
        parts = await self._kit.store.crawl_parts(self.crawl, 0, 10_000, "warc")
        return b"".join(self.archived[part.execution, n] for part in parts for n in range(part.first, part.last))
