"""One crawl over many nodes: each URL once, a chunk whole or not at all, never more pages than were asked for."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from random import Random

from crawlfleet.model.crawl import CrawlCounts, CrawlLimits, CrawlUrl, UrlFlag
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import GroupId
from crawlfleet.model.task import RetryPolicy
from crawlfleet.ports.composite_store import Asking, ChunkReport, Exchanged
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import NewCrawl, NewGroup, Submission
from crawlfleet.store.composites.crawls import shed_urls, unpack_urls
from testkit.factories import Kit, ReadyNode, Run

SITE = "http://site.test/"


async def a_crawl_is_made_with_its_seeds(store: Store, kit: Kit) -> None:
    crawl, (first, _) = await _crawl(kit, members=2, seeds=_urls("a", "b", "a"))
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert (state.found, state.queued, state.leased, state.counts) == (2, 2, 0, CrawlCounts())
    assert (state.started_at, state.finished_at) == (None, None)
    given = await _ask(kit, first)
    assert (given.state, _names(given)) == ("chunk", ["a"])
    assert (await kit.second.crawl_states([crawl]))[crawl].leased == 1


async def a_reported_chunk_counts_with_all_it_found(store: Store, kit: Kit) -> None:
    crawl, (run, _) = await _crawl(kit, members=2)
    given = await _ask(kit, run)
    report = ChunkReport(
        given.number, CrawlCounts(pages=1, items=7, bytes=900), _urls("b", "c", "b", depth=1), (), 0, 2, 3, 4
    )
    then = await _ask(kit, run, report)
    assert (then.state, _names(then)) == ("chunk", ["b"])
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert (state.counts, state.found) == (CrawlCounts(pages=1, items=7, bytes=900), 3)
    (part,) = await kit.second.crawl_parts(crawl, 0, 10)
    assert part == (given.number, run.task, run.execution, 0, 2)
    assert await kit.second.crawl_parts(crawl, part.number, 10) == []
    (archived,) = await kit.second.crawl_parts(crawl, 0, 10, "warc")
    assert archived == (given.number, run.task, run.execution, 3, 4)


async def the_same_report_again_is_answered_the_same(store: Store, kit: Kit) -> None:
    _, (run, _) = await _crawl(kit, members=2)
    given = await _ask(kit, run)
    async with kit.unchanged():
        assert _names(await _ask(kit, run)) == _names(given)
    report = ChunkReport(given.number, CrawlCounts(pages=1), _urls("b", "c", "d", depth=1))
    then = await _ask(kit, run, report)
    async with kit.unchanged():
        again = await _ask(kit, run, report)
    assert (again.state, again.number, again.urls) == (then.state, then.number, then.urls)


async def an_execution_that_is_over_reports_nothing(store: Store, kit: Kit) -> None:
    crawl, (lost, other) = await _crawl(kit, members=2)
    given = await _ask(kit, lost)
    assert (await _ask(kit, other)).state == "wait"
    await kit.end(lost.node)
    async with kit.unchanged():
        late = ChunkReport(given.number, CrawlCounts(pages=1), _urls("b", depth=1), (), 0, 1)
        assert (await _ask(kit, lost, late)).state == "stale"
    assert _names(await _ask(kit, other)) == _names(given)
    assert (await kit.second.crawl_states([crawl]))[crawl].counts.pages == 0


async def a_chunk_of_somebody_else_is_not_reported(store: Store, kit: Kit) -> None:
    _, (run, other) = await _crawl(kit, members=2)
    given = await _ask(kit, run)
    stranger = await kit.run_one(run.node)
    async with kit.unchanged():
        for number in (given.number, given.number + 100):
            assert (await _ask(kit, other, ChunkReport(number))).state == "stale"
        assert (await _ask(kit, run._replace(execution=run.execution + 1))).state == "stale"
        assert (await _ask(kit, stranger)).state == "no_crawl"


async def a_crawl_ends_when_nothing_is_left(store: Store, kit: Kit) -> None:
    crawl, (run, other) = await _crawl(kit, members=2)
    given = await _ask(kit, run)
    assert (await _ask(kit, other)).state == "wait"
    kit.later()
    assert (await _ask(kit, run, ChunkReport(given.number, CrawlCounts(pages=1)))).state == "done"
    assert (await _ask(kit, other)).state == "done"
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert (state.finished_at, state.stopped_by, state.queued) == (kit.now, None, 0)


async def levels_follow_one_another(store: Store, kit: Kit) -> None:
    _, (run, other) = await _crawl(kit, members=2, seeds=_urls("a", "b"), depth=3)
    first, second = await _ask(kit, run), await _ask(kit, other)
    waits = await _ask(kit, run, ChunkReport(first.number, CrawlCounts(pages=1), _urls("c", depth=1)))
    assert waits.state == "wait"
    then = await _ask(kit, other, ChunkReport(second.number, CrawlCounts(pages=1)))
    assert _names(then) == ["c"]


async def those_who_wait_are_woken_when_there_is_something_for_them(store: Store, kit: Kit) -> None:
    _, (run, other, third) = await _crawl(kit, members=3, seeds=_urls("a", "b"), depth=3)
    first, second = await _ask(kit, run), await _ask(kit, other)
    # The first takes what nobody has to wait for: there is no news in it.
    assert (first.is_news, second.is_news, (await _ask(kit, third)).is_news) == (False, False, False)
    found = _urls("c", "d", "e", depth=1)
    waits = await _ask(kit, run, ChunkReport(first.number, CrawlCounts(pages=1), found))
    assert (waits.state, waits.is_news) == ("wait", False)
    then = await _ask(kit, other, ChunkReport(second.number, CrawlCounts(pages=1)))
    assert (then.state, then.is_news) == ("chunk", True)
    chunks = [(other, then), (run, await _ask(kit, run)), (third, await _ask(kit, third))]
    assert [_names(chunk) for _, chunk in chunks] == [["c"], ["d"], ["e"]]
    ends = [await _ask(kit, one, ChunkReport(chunk.number, CrawlCounts(pages=1))) for one, chunk in chunks]
    assert [(end.state, end.is_news) for end in ends] == [("wait", False), ("wait", False), ("done", True)]
    assert (await _ask(kit, run)).is_news is False


async def a_lost_members_chunk_is_news_for_those_who_wait(store: Store, kit: Kit) -> None:
    _, (lost, run, other) = await _crawl(kit, members=3, seeds=_urls("a", "b", "c"), depth=3)
    chunks = [await _ask(kit, one) for one in (lost, run, other)]
    await kit.end(lost.node)
    then = await _ask(kit, run, ChunkReport(chunks[1].number, CrawlCounts(pages=1)), held=[])
    assert _names(then) == _names(chunks[0])
    assert not then.is_news
    busy = await _ask(kit, other, held=[chunks[2].number])
    assert (busy.state, busy.is_news) == ("wait", False)


async def one_that_works_hears_whether_it_could_have_more(store: Store, kit: Kit) -> None:
    _, (run, _) = await _crawl(kit, members=2, seeds=_urls(*(str(n) for n in range(300))))
    given = await _ask(kit, run)
    assert given.has_more
    assert (await _ask(kit, run, held=[given.number])).state == "chunk"
    _, (run, other) = await _crawl(kit, members=2, seeds=_urls("a", "b"))
    for one in (run, other):
        given = await _ask(kit, one)
        assert not given.has_more
        assert (await _ask(kit, one, held=[given.number])).state == "wait"


async def of_two_depths_the_nearer_counts(store: Store, kit: Kit) -> None:
    _, (run, _) = await _crawl(kit, members=2, depth=3)
    given = await _ask(kit, run)
    found = [*_urls("b", depth=2), *_urls("b", depth=1)]
    then = await _ask(kit, run, ChunkReport(given.number, CrawlCounts(pages=1), found))
    assert [one.depth for one in then.urls] == [1]


async def urls_that_were_not_visited_come_again(store: Store, kit: Kit) -> None:
    crawl, (run,) = await _crawl(kit, members=1, seeds=_urls("a", "b", "c"))
    given = await _ask(kit, run)
    assert _names(given) == ["a", "b", "c"]
    report = ChunkReport(given.number, CrawlCounts(pages=2), again=[given.urls[1]._replace(tries=1)])
    then = await _ask(kit, run, report)
    assert [(one.url, one.tries) for one in then.urls] == [(SITE + "b", 1)]
    assert (await kit.second.crawl_states([crawl]))[crawl].found == 3


async def a_sitemap_is_no_page_and_has_a_chunk_of_its_own(store: Store, kit: Kit) -> None:
    page, sitemap = CrawlUrl(SITE, 0), CrawlUrl(SITE, 0, flags=int(UrlFlag.SITEMAP))
    crawl, (run, other) = await _crawl(kit, members=2, seeds=[page, sitemap])
    first = await _ask(kit, run)
    assert [one.flags for one in first.urls] == [UrlFlag.SITEMAP]
    # Pages it lists are as near as the start: none is visited before it is read.
    assert (await _ask(kit, other)).state == "wait"
    then = await _ask(kit, run, ChunkReport(first.number))
    assert [one.flags for one in then.urls] == [0]
    assert (await kit.second.crawl_states([crawl]))[crawl].found == 1


async def one_that_works_gets_more_only_when_there_is_enough(store: Store, kit: Kit) -> None:
    _, (run, _, _, _) = await _crawl(kit, members=4, seeds=_urls(*(str(n) for n in range(6))))
    given = await _ask(kit, run)
    more = await _ask(kit, run, held=[given.number])
    assert more.state == "wait"
    _, (run,) = await _crawl(kit, members=1, seeds=_urls(*(str(n) for n in range(300))))
    given = await _ask(kit, run)
    more = await _ask(kit, run, held=[given.number])
    assert (more.state, len(more.urls)) == ("chunk", 100)


async def pages_are_never_more_than_were_asked_for(store: Store, kit: Kit) -> None:
    seeds = _urls(*(str(n) for n in range(40)))
    crawl, runs = await _crawl(kit, members=4, seeds=seeds, max_pages=15)
    given = [await _ask(kit, run) for run in runs]
    assert sum(len(one.urls) for one in given) == 15
    done = 0
    for run, one in zip(runs, given, strict=True):
        # Every other page fails, so that there is room for others.
        pages = len(one.urls) // 2
        done += pages
        report = ChunkReport(one.number, CrawlCounts(pages=pages, failed=len(one.urls) - pages))
        await _ask(kit, run, report)
    await _work_off(kit, runs, lambda _: ())
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert (state.counts.pages, state.stopped_by, state.leased) == (15, "max_pages", 0)


async def limits_of_time_and_size_end_a_crawl(store: Store, kit: Kit) -> None:
    for limits, later_ms, word in (({"max_ms": 5_000}, 5_000, "max_seconds"), ({"max_bytes": 10}, 0, "max_bytes")):
        crawl, (run,) = await _crawl(kit, members=1, seeds=_urls("a"), **limits)
        given = await _ask(kit, run)
        kit.later(later_ms)
        report = ChunkReport(given.number, CrawlCounts(pages=1, bytes=10), _urls("b"))
        assert (await _ask(kit, run, report)).state == "done"
        assert (await kit.second.crawl_states([crawl]))[crawl].stopped_by == word


async def a_crawl_goes_on_when_its_members_are_tried_again(store: Store, kit: Kit) -> None:
    crawl, (run,) = await _crawl(kit, members=1, seeds=_urls("a", "b"))
    given = await _ask(kit, run)
    await _ask(kit, run, ChunkReport(given.number, CrawlCounts(pages=1), again=given.urls[1:]))
    await kit.fail(run)
    assert (await kit.second.crawl_states([crawl]))[crawl].finished_at is None
    anew = await _member(kit, crawl)
    assert _names(await _ask(kit, anew)) == ["b"]


async def a_crawl_goes_with_its_group(store: Store, kit: Kit) -> None:
    crawl, (run,) = await _crawl(kit, members=1)
    given = await _ask(kit, run)
    await _ask(kit, run, ChunkReport(given.number, CrawlCounts(pages=1)))
    await kit.complete(run)
    await store.drop_tasks([run.task], kit.now)
    assert await store.remove_group(crawl)
    dump = await kit.dump()
    for name in ("crawl", "crawl_seen", "crawl_chunk"):
        assert dump[name] == [], name


async def a_large_crawl_is_forgotten_bit_by_bit(store: Store, kit: Kit) -> None:
    crawl, _ = await _crawl(kit, members=0, seeds=_urls(*map(str, range(10))))
    for left in ({crawl}, {crawl}, set[GroupId]()):
        assert await kit.second.engine.write(lambda tx: shed_urls(tx, [crawl], limit=5)) == left
    assert await store.remove_group(crawl)
    assert (await kit.dump())["crawl_chunk"] == []


async def many_members_at_once_visit_every_page_once(store: Store, kit: Kit) -> None:
    """Eight members, some of whom die, over a graph of pages: what counts is each reachable page once."""
    rng = Random(7)
    graph = {n: [rng.randrange(400) for _ in range(4)] for n in range(400)}
    crawl, runs = await _crawl(kit, members=8, seeds=_urls("0"), depth=1_000, max_pages=10_000)
    counted: Counter[str] = Counter()

    async def live(run: Run) -> None:
        lives = 3
        while True:
            given = await _ask(kit, run)
            await asyncio.sleep(0)
            if given.state == "done":
                return
            if given.state == "wait":
                await asyncio.sleep(0.002)
                continue
            await _check_disjoint(kit, crawl)
            if lives and rng.random() < 0.1:
                lives -= 1
                await kit.end(run.node)
                run = await _member(kit, crawl)
                continue
            found = [CrawlUrl(f"{SITE}{n}", 1) for one in given.urls for n in graph[int(one.url[len(SITE) :])]]
            report = ChunkReport(given.number, CrawlCounts(pages=len(given.urls)), found)
            # Half of the answers are lost.
            for _ in range(rng.randrange(1, 3)):
                assert (await _ask(kit, run, report)).state != "stale"
            counted.update(_names(given))

    await asyncio.gather(*(live(run) for run in runs))
    reachable, todo = {0}, [0]
    while todo:
        for n in graph[todo.pop()]:
            if n not in reachable:
                reachable.add(n)
                todo.append(n)
    assert counted == Counter(map(str, reachable))
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert (state.counts.pages, state.found, state.queued) == (len(reachable), len(reachable), 0)


async def watchers_are_told_now_and_then_and_at_the_end(store: Store, kit: Kit) -> None:
    crawl, (run,) = await _crawl(kit, members=1, seeds=_urls(*(str(number) for number in range(250))), depth=0)
    given = await _ask(kit, run)
    while given.state == "chunk":
        kit.now += 2_000
        counts = CrawlCounts(pages=len(given.urls) - 1, failed=1, items=3, bytes=10)
        given = await _ask(kit, run, ChunkReport(given.number, counts))
    assert given.state == "done"
    told = [event.data for event in await kit.events() if event.kind == "crawl.progress"]
    assert told[0]["group"] == crawl
    pages = [one["pages"] for one in told]
    # Two seconds apart are chunks, and events five at least; but for the last.
    state = (await kit.second.crawl_states([crawl]))[crawl]
    assert pages == sorted(pages) and len(told) <= 2 + (kit.now - (state.started_at or 0)) // 5_000
    assert [one["is_finished"] for one in told] == [False] * (len(told) - 1) + [True]
    last = told[-1]
    assert (last["pages"], last["failed"], last["items"]) == (*state.counts[:2], state.counts.items)
    assert (last["found"], last["queued"], last["left_s"], last["stopped_by"]) == (250, 0, None, None)
    assert told[0]["left_s"] > 0 and told[0]["rate_per_s"] > 0
    async with kit.unchanged():
        await _ask(kit, run)


async def _check_disjoint(kit: Kit, crawl: GroupId) -> None:
    sql = "SELECT urls FROM crawl_chunk WHERE crawl = $1 AND state < 2"
    rows = await kit.second.engine.read(lambda tx: tx.fetch(sql, crawl))
    urls = [one.url for (blob,) in rows for one in unpack_urls(blob)]
    assert len(urls) == len(set(urls))


def _urls(*names: str, depth: int = 0) -> list[CrawlUrl]:
    return [CrawlUrl(SITE + name, depth) for name in names]


def _names(given: Exchanged) -> list[str]:
    return [one.url.removeprefix(SITE) for one in given.urls]


async def _crawl(
    kit: Kit,
    *,
    members: int,
    seeds: Iterable[CrawlUrl] = (CrawlUrl(SITE + "a", 0),),
    depth: int = 5,
    max_pages: int = 1_000,
    max_ms: int | None = None,
    max_bytes: int | None = None,
) -> tuple[GroupId, list[Run]]:
    """A crawl, and executions of its members, each on a node of its own."""
    limits = CrawlLimits(max(1, members), depth, max_pages, max_ms, max_bytes)
    new = NewGroup(kit.ids.new_id(), "shop", kind=GroupKind.CRAWL, crawl=NewCrawl(limits, list(seeds)))
    added = await kit.store.add_tasks([Submission([], group=new)], kit.now)
    assert added.answers[0].group == new.id
    return new.id, [await _member(kit, new.id) for _ in range(members)]


async def _member(kit: Kit, crawl: GroupId, node: ReadyNode | None = None) -> Run:
    return await kit.run_one(node or await kit.node(), group=crawl, retry=RetryPolicy(0))


async def _ask(kit: Kit, run: Run, report: ChunkReport | None = None, held: Iterable[int] = ()) -> Exchanged:
    return await kit.store.exchange_batches(Asking(run.node.id, run.task, run.execution, report, list(held)), kit.now)


async def _work_off(kit: Kit, runs: list[Run], found: object) -> None:
    """Everything that is left, one member after the other; what each holds it is given again."""
    assert callable(found)
    todo = list(runs)
    while todo:
        run = todo.pop(0)
        given = await _ask(kit, run)
        if given.state == "chunk":
            report = ChunkReport(given.number, CrawlCounts(pages=len(given.urls)), found(given.urls))
            await _ask(kit, run, report)
        if given.state != "done":
            todo.append(run)
