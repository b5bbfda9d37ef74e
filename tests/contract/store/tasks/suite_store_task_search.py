"""Searching tasks: by the beginning of an id or a name, by the host of a URL, a bounded way back per page."""

from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store.tasks import task_search
from testkit.factories import Kit

EVERYTHING = TaskFilter()


async def _found(kit: Kit, text: str, where: TaskFilter = EVERYTHING) -> list[TaskId]:
    page = await kit.second.find_tasks(where, 100, text=text)
    assert (page.before, page.searched_to) == (None, None)
    return [record.id for record in page.tasks]


async def a_search_finds_the_host_of_a_url_and_nothing_else_of_it(store: Store, kit: Kit) -> None:
    one = await kit.submit_one(parameters=b'{"url": "https://shop.example.com/offers"}')
    many = await kit.submit_one(parameters=b'{"urls": ["http://a.org", "http://www.shop.example.com:8080/"]}')
    seeds = await kit.submit_one(parameters=b'{"start_urls": ["https://SHOP.EXAMPLE.COM"], "note": "\xc3\xbc"}')
    await kit.submit_one(parameters=b'{"url": "https://a.org/?from=shop.example.com", "note": "shop.example.com"}')
    assert await _found(kit, "shop.example.com") == [seeds, many, one]
    assert await _found(kit, "Shop.Example") == [seeds, many, one]
    assert await _found(kit, "offers") == []
    assert await _found(kit, "%") == []


async def a_search_finds_the_beginning_of_a_name(store: Store, kit: Kit) -> None:
    named = await kit.submit_one(name="nightly prices")
    await kit.submit_one(name="prices")
    assert await _found(kit, "nightly") == [named]
    assert await _found(kit, "Nightly") == []


async def a_search_finds_an_id_by_its_beginning(store: Store, kit: Kit) -> None:
    first = await kit.submit_one()
    kit.later(60_000)
    second = await kit.submit_one()
    assert await _found(kit, task_text(first)) == [first]
    assert await _found(kit, task_text(first)[:-4]) == [first]
    assert await _found(kit, task_text(first)[:9]) == [second, first]
    assert await _found(kit, "task-ffff") == []
    assert await _found(kit, task_text(first), TaskFilter((TaskStatus.COMPLETED,))) == []


async def a_search_minds_the_other_filters(store: Store, kit: Kit) -> None:
    parameters = b'{"url": "https://shop.example.com"}'
    lane = await kit.known_lane("other", queue="slow")
    mine = await kit.submit_one(parameters=parameters)
    other = await kit.submit_one(parameters=parameters, lane=lane)
    assert await _found(kit, "shop", TaskFilter(project="other")) == [other]
    assert await _found(kit, "shop", TaskFilter(queue="slow", statuses=(TaskStatus.PENDING,))) == [other]
    assert await _found(kit, "shop", TaskFilter(statuses=(TaskStatus.FAILED,))) == []
    assert await _found(kit, "shop") == [other, mine]


async def a_search_goes_a_bounded_way_back_per_page_and_misses_nothing(store: Store, kit: Kit) -> None:
    usual, task_search.ROWS = task_search.ROWS, 20
    try:
        wanted = await kit.submit_one(name="needle")
        await kit.submit(50)
        found: list[TaskId] = []
        page, pages = await kit.second.find_tasks(EVERYTHING, 10, text="needle"), 1
        assert (page.tasks, page.searched_to is None) == ([], False)
        while page.before is not None:
            found += [record.id for record in page.tasks]
            page, pages = await kit.second.find_tasks(EVERYTHING, 10, page.before, "needle"), pages + 1
        found += [record.id for record in page.tasks]
        assert (found, pages) == ([wanted], 3)
    finally:
        task_search.ROWS = usual


async def a_page_of_finds_ends_where_the_next_begins(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(7, name="needle")
    await kit.submit(3)
    seen: list[TaskId] = []
    before: TaskId | None = None
    while True:
        page = await kit.second.find_tasks(EVERYTHING, 3, before, "needle")
        seen += [record.id for record in page.tasks]
        before = page.before
        if before is None:
            break
    assert seen == tasks[::-1]
    assert len((await kit.second.find_tasks(EVERYTHING, 7, text="needle")).tasks) == 7


async def a_list_without_a_search_is_paged_the_same_way(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    page = await kit.second.find_tasks(EVERYTHING, 3)
    rest = await kit.second.find_tasks(EVERYTHING, 3, page.before)
    assert [record.id for record in (*page.tasks, *rest.tasks)] == tasks[::-1]
    assert (rest.before, rest.searched_to) == (None, None)
