"""One crawl over many nodes: a crash between every two steps, and any order of deaths and lost answers."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.model.crawl import CrawlCounts, CrawlLimits, CrawlUrl
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import ExecutionId, GroupId
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.composite_store import Asking, ChunkReport, Exchanged
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Claim, NewCrawl, NewGroup, Submission
from testkit.factories import Kit, Run
from tests.integration.faults.faults_crashes import NOWHERE, Failpoints, Point, bury
from tests.integration.faults.faults_stores import Stores
from tests.unit.store.store_kit import sqlite_kit

pytestmark = pytest.mark.integration

SITE = "http://site.test/"
Graph = dict[int, list[int]]


class Results:
    """What members sent up, and what of it counts."""

    def __init__(self) -> None:
        self.sent: dict[tuple[ExecutionId, int], list[str]] = {}

    async def counted(self, store: Store, crawl: GroupId) -> Counter[int]:
        parts = await store.crawl_parts(crawl, 0, 10_000)
        lines = [line for part in parts for n in range(part.first, part.last) for line in self.sent[part.execution, n]]
        return Counter(int(line.removeprefix(SITE)) for line in lines)


class Player:
    """A member, step by step. What it wants to say it says until it is answered."""

    def __init__(self, run: Run, graph: Graph, results: Results, depth: int) -> None:
        self.run = run
        self._graph = graph
        self._results = results
        self._depth = depth
        self._chunks = 0
        self._report: ChunkReport | None = None

    async def ask(self, store: Store, now: int) -> Exchanged:
        run = self.run
        return await store.exchange_batches(Asking(run.node.id, run.task, run.execution, self._report), now)

    def take(self, answer: Exchanged) -> None:
        """Heard: it works on what it was given."""
        self._report = None
        if answer.state == "chunk":
            self._results.sent[self.run.execution, self._chunks] = [one.url for one in answer.urls]
            self._chunks += 1
            self._report = ChunkReport(
                answer.number,
                CrawlCounts(pages=len(answer.urls)),
                list(self._found(answer.urls)),
                (),
                self._chunks - 1,
                self._chunks,
            )

    def _found(self, urls: Sequence[CrawlUrl]) -> Iterator[CrawlUrl]:
        for one in urls:
            if one.depth < self._depth:
                for n in self._graph[int(one.url.removeprefix(SITE))]:
                    yield CrawlUrl(f"{SITE}{n}", one.depth + 1)


def within(graph: Graph, depth: int) -> set[int]:
    level, found = {0}, {0}
    for _ in range(depth):
        level = {n for one in level for n in graph[one]} - found
        found |= level
    return found


def new_crawl(kit: Kit, members: int, depth: int, max_pages: int = 1_000) -> NewGroup:
    new = NewCrawl(CrawlLimits(members, depth, max_pages), [CrawlUrl(f"{SITE}0", 0)])
    return NewGroup(kit.ids.new_id(), "shop", kind=GroupKind.CRAWL, crawl=new)


# -- crashes


class MadeAndWorkedOff:
    """A crawl is made under a key and worked off by one member, under masters of which one dies on the way."""

    graph: Graph = {0: [1, 2, 3], 1: [2, 4], 2: [5], 3: [], 4: [0], 5: []}  # noqa: RUF012

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._results = Results()
        self._new = new_crawl(kit, 1, 9)
        self._task = kit.new_task(group=self._new.id, retry=RetryPolicy(0))
        self._claim = Claim("shop", "key", b"body", kit.now + 1_000_000)
        self._player: Player | None = None

    async def act(self, store: Store) -> None:
        kit = self._kit
        if self._player is None:
            submission = Submission([self._task], True, self._claim, group=self._new)
            (answer,) = (await store.add_tasks([submission], kit.now)).answers
            assert answer.group == self._new.id
            (run,) = await kit.assign([self._task.id], await kit.node())
            self._player = Player(run, self.graph, self._results, 9)
        while (answered := await self._player.ask(store, kit.now)).state != "done":
            assert answered.state == "chunk"
            self._player.take(answered)

    async def expect(self) -> None:
        store, crawl = self._kit.store, self._new.id
        assert await self._results.counted(store, crawl) == Counter(list(self.graph))
        state = (await store.crawl_states([crawl]))[crawl]
        assert (state.counts.pages, state.found, state.leased) == (6, 6, 0)
        assert (await store.group_counts([crawl]))[crawl].total == 1


async def crashed_at(stores: Stores, point: Point) -> Failpoints:
    living = asyncio.all_tasks()
    real = await stores.fresh()
    scenario = MadeAndWorkedOff(await Kit.open(real, real))
    points = Failpoints(point)
    torn, _ = points.ports(real, MemoryBroker())
    if await points.run(lambda: scenario.act(torn)):
        await scenario.act(real)
    await scenario.expect()
    await bury(living)
    return points


async def test_a_crash_anywhere_loses_and_doubles_nothing(stores: Stores) -> None:
    whole = await crashed_at(stores, NOWHERE)
    points = list(whole.points(is_every_call=False))
    assert len(points) > 20
    for point in points:
        await crashed_at(stores, point)


# -- any order


GRAPHS = st.integers(2, 12).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size)
)
STEPS = st.lists(st.tuples(st.sampled_from(["ask", "ask", "lose answer", "die"]), st.integers(0, 3)), max_size=40)


@pytest.fixture(scope="module")
def loop_and_kit() -> Iterator[tuple[asyncio.Runner, Kit]]:
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory() as folder:
        stack = AsyncExitStack()
        kit = runner.run(stack.enter_async_context(sqlite_kit(Path(folder))))
        yield runner, kit
        runner.run(stack.aclose())


# The second one goes ahead: what it finds by a long way, the first one would have found by a short one.
AHEAD = [("ask", 0), ("ask", 0), *[("ask", 1)] * 6]


@example(links=[[1, 2], [4], [3], [4], [5], []], steps=AHEAD, depth=3, members=2)
@given(links=GRAPHS, steps=STEPS, depth=st.integers(0, 4), members=st.integers(1, 4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_every_page_in_reach_counts_once(
    loop_and_kit: tuple[asyncio.Runner, Kit],
    links: list[list[int]],
    steps: list[tuple[str, int]],
    depth: int,
    members: int,
) -> None:
    runner, kit = loop_and_kit
    runner.run(_play(kit, dict(enumerate(links)), steps, depth, members))


async def _play(kit: Kit, graph: Graph, steps: list[tuple[str, int]], depth: int, members: int) -> None:
    new, results = new_crawl(kit, members, depth), Results()
    await kit.store.add_tasks([Submission([], group=new)], kit.now)

    async def join() -> Player:
        run = await kit.run_one(await kit.node(), group=new.id, retry=RetryPolicy(0))
        return Player(run, graph, results, depth)

    players = [await join() for _ in range(members)]
    for what, who in steps:
        at = who % members
        if what == "die":
            dead, players[at] = players[at], await join()
            await kit.end(dead.run.node)
            assert (await dead.ask(kit.store, kit.now)).state == "stale"
        else:
            answer = await players[at].ask(kit.store, kit.now)
            if what == "ask":
                players[at].take(answer)
    # From here on nobody dies: it comes to its end.
    working = list(players)
    while working:
        player = working.pop(0)
        answer = await player.ask(kit.store, kit.now)
        player.take(answer)
        if answer.state != "done":
            working.append(player)
    assert await results.counted(kit.store, new.id) == Counter(within(graph, depth))
