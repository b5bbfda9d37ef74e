"""Cookie jars: one per project and name, changed only by live executions of the project."""

import asyncio

from crawlfleet.model.cookie import CookieRecord
from crawlfleet.model.crawl import CrawlLimits
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import group_text, task_text
from crawlfleet.ports.composite_store import CookieChanges
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import NewCrawl, NewGroup, Submission
from testkit.factories import PROJECT, Kit, Run

URL = "http://shop.test/"
ROUNDS = 10
DAY_MS = 86_400_000


def _changes(run: Run, *headers: str, jar: str = "login", at: int = 0) -> CookieChanges:
    records = [CookieRecord(URL, header, at) for header in headers]
    return CookieChanges(run.node.id, run.task, run.execution, jar, records)


async def _headers(store: Store, kit: Kit, run: Run, jar: str = "login") -> list[str] | None:
    found = await store.merge_cookie_jar(_changes(run, jar=jar), kit.now)
    return None if found is None else [record.header for record in found]


async def cookies_are_kept_for_the_next_execution(store: Store, kit: Kit) -> None:
    node = await kit.node()
    first, second = await kit.run_one(node), await kit.run_one(node)
    merged = await store.merge_cookie_jar(_changes(first, "a=1", "b=1", at=kit.now), kit.now)
    assert merged == [CookieRecord(URL, "a=1", kit.now), CookieRecord(URL, "b=1", kit.now)]
    await store.merge_cookie_jar(_changes(second, "b=2", at=kit.now), kit.later())
    assert await _headers(kit.second, kit, first) == ["a=1", "b=2"]


async def a_jar_that_is_only_read_is_not_made(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    async with kit.unchanged():
        assert await _headers(store, kit, run) == []
    assert await store.cookie_jars(None, 10) == []


async def cookies_of_an_execution_that_is_over_are_not_written(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    for wrong in (run._replace(execution=run.execution + 1), run._replace(task=run.task + 1)):
        async with kit.unchanged():
            assert await store.merge_cookie_jar(_changes(wrong, "a=1"), kit.now) is None
    await store.complete_executions([kit.outcome(run)], kit.later())
    async with kit.unchanged():
        assert await store.merge_cookie_jar(_changes(run, "a=1"), kit.now) is None


async def a_jar_without_a_name_is_that_of_the_task_or_of_its_crawl(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node)
    await store.merge_cookie_jar(_changes(run, "a=1", jar="", at=kit.now), kit.now)
    group = NewGroup(kit.ids.new_id(), "shop", kind=GroupKind.CRAWL, crawl=NewCrawl(CrawlLimits(2, 1, 10), []))
    await store.add_tasks([Submission([], group=group)], kit.now)
    members = [await kit.run_one(node, group=group.id) for _ in range(2)]
    await store.merge_cookie_jar(_changes(members[0], "b=1", jar="", at=kit.now), kit.now)
    assert await _headers(store, kit, members[1], "") == ["b=1"]
    assert await _headers(store, kit, run, "") == ["a=1"]
    names = {jar.name for jar in await store.cookie_jars(None, 10)}
    assert names == {f"@{task_text(run.task)}", f"@{group_text(group.id)}"}


async def jars_are_listed_without_their_cookies_and_removed(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await store.merge_cookie_jar(_changes(run, "a=secret", at=kit.now), kit.now)
    (jar,) = await kit.second.cookie_jars(PROJECT, 10)
    assert jar == (PROJECT, "login", 1, ("shop.test",), kit.now)
    assert await store.cookie_jars("another", 10) == []
    assert not await store.remove_cookie_jar("another", "login")
    assert await store.remove_cookie_jar(PROJECT, "login")
    assert not await store.remove_cookie_jar(PROJECT, "login")


async def changes_by_many_at_once_are_all_in_the_jar(store: Store, kit: Kit) -> None:
    node = await kit.node()
    runs = [await kit.run_one(node) for _ in range(ROUNDS)]
    await asyncio.gather(
        *(
            (store, kit.second)[n % 2].merge_cookie_jar(_changes(run, f"c{n}=1", at=kit.now), kit.now)
            for n, run in enumerate(runs)
        )
    )
    assert sorted(await _headers(store, kit, runs[0]) or []) == sorted(f"c{n}=1" for n in range(ROUNDS))


async def a_jar_goes_when_it_has_not_changed_for_as_long_as_tasks_are_kept(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await store.merge_cookie_jar(_changes(run, "a=1", at=kit.now), kit.now)
    term = await kit.term()
    await store.merge_cookie_jar(_changes(run, "b=1", jar="young", at=kit.now), kit.later(2 * DAY_MS))
    await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, 100)
    assert [jar.name for jar in await store.cookie_jars(None, 10)] == ["young"]
