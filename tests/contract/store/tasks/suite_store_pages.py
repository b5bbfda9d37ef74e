"""Pages for people: bounded in bytes, whatever tasks were given, and whole when they are put together."""

from unittest.mock import patch

import msgspec

from crawlfleet.model.ids import TaskId
from crawlfleet.model.schedule import Timing
from crawlfleet.ports.schedule_store import ScheduleFilter
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import PAGE_BYTES
from crawlfleet.store.tasks import task_search
from testkit.factories import Kit
from tests.contract.store.composites.schedules_kit import made

LARGE = PAGE_BYTES // 4 - 1_000
"""Of these four fit a page."""


def _parameters(url: str, size: int = LARGE) -> bytes:
    return msgspec.json.encode({"url": url, "padding": "x" * size})


async def a_page_of_tasks_has_no_parameters_unless_they_are_asked_for(store: Store, kit: Kit) -> None:
    await kit.submit(parameters=b'{"url":"http://a.example/"}')
    assert [one.parameters for one in (await kit.second.find_tasks(TaskFilter(), 10)).tasks] == [b""]
    asked = await kit.second.find_tasks(TaskFilter(), 10, with_parameters=True)
    assert [one.parameters for one in asked.tasks] == [b'{"url":"http://a.example/"}']


async def a_page_of_large_tasks_is_short_and_goes_on(store: Store, kit: Kit) -> None:
    tasks = [await kit.submit_one(parameters=_parameters("http://a.example/")) for _ in range(10)]
    sizes, found = await _walk(kit, with_parameters=True)
    assert found == tasks[::-1]
    assert sizes == [4, 4, 2]
    sizes, found = await _walk(kit)
    assert (sizes, found) == ([10], tasks[::-1])


async def one_task_that_is_larger_than_a_page_is_a_page(store: Store, kit: Kit) -> None:
    tasks = [await kit.submit_one(parameters=_parameters("http://a.example/", PAGE_BYTES)) for _ in range(3)]
    assert await _walk(kit, with_parameters=True) == ([1, 1, 1], tasks[::-1])


async def a_search_reads_so_many_bytes_for_a_page_and_finds_everything(store: Store, kit: Kit) -> None:
    tasks = []
    for n in range(12):
        host = "needle.example" if n % 4 == 0 else "hay.example"
        tasks.append(await kit.submit_one(parameters=_parameters(f"http://{host}/", 100_000)))
    with patch.object(task_search, "BYTES", 350_000):
        page = await kit.second.find_tasks(TaskFilter(), 100, text="needle")
        assert (page.before, page.searched_to) == (tasks[8] + 1, tasks[8])
        sizes, found = await _walk(kit, text="needle")
    assert found == [tasks[8], tasks[4], tasks[0]]
    assert len(sizes) == 4
    assert (await _walk(kit, text="needle"))[1] == found


async def what_a_search_found_is_kept_without_parameters(store: Store, kit: Kit) -> None:
    tasks = [await kit.submit_one(parameters=_parameters("http://needle.example/")) for _ in range(10)]
    assert await _walk(kit, text="needle") == ([10], tasks[::-1])
    assert await _walk(kit, text="needle", with_parameters=True) == ([4, 4, 2], tasks[::-1])


async def a_page_of_schedules_is_bounded_in_bytes(store: Store, kit: Kit) -> None:
    new = [await made(kit, timing=Timing(at=kit.now + 60_000), task=b"x" * LARGE) for _ in range(6)]
    first = await kit.second.list_schedules(ScheduleFilter(), 100)
    assert (len(first), first.has_more) == (4, True)
    rest = await kit.second.list_schedules(ScheduleFilter(), 100, first[-1].id)
    assert rest.has_more is False
    assert [one.id for one in [*first, *rest]] == [one.id for one in reversed(new)]


async def a_page_says_whether_there_is_more(store: Store, kit: Kit) -> None:
    for _ in range(3):
        await made(kit, timing=Timing(at=kit.now + 60_000))
    assert [(await kit.second.list_schedules(ScheduleFilter(), n)).has_more for n in (2, 3, 4)] == [True, False, False]


async def every_execution_is_found_page_by_page(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    (first,) = await kit.second.task_executions(task)

    async def copy(number: int) -> None:
        row = dict(zip((column.name for column in schema.execution.columns), await _row(kit), strict=True))
        row |= {"id": first.id + number, "result": b"x" * LARGE}
        await kit.second.engine.write(lambda tx: tx.insert(schema.execution, tuple(row), [tuple(row.values())]))

    for number in range(1, 9):
        await copy(number)
    pages, after = [], 0
    while True:
        page = await kit.second.execution_page(task, 100, after)
        pages.append([one.id for one in page])
        if not page.has_more:
            break
        after = page[-1].id
    assert [one for page in pages for one in page] == [first.id + number for number in range(9)]
    assert all(len(page) <= 5 for page in pages)
    running = await kit.run_one(await kit.node())
    assert [one.id for one in await kit.second.execution_page(running.task, 100)] == [running.execution]


async def events_of_one_answer_are_bounded_in_bytes(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(50)
    await kit.events()
    whole = await kit.second.events_after(0, 1_000)
    with patch("crawlfleet.store.admin.events.MAX_BYTES", 1), patch("crawlfleet.store.admin.events.ROWS_AT_ONCE", 2):
        number, seen = 0, []
        while found := await kit.second.events_after(number, 1_000):
            seen += found
            number = found[-1].number
    assert seen == whole and len(whole) >= len(tasks)


async def _walk(kit: Kit, text: str | None = None, *, with_parameters: bool = False) -> tuple[list[int], list[TaskId]]:
    """How many each page had, and all of them."""
    sizes, found, before = [], [], None
    while True:
        page = await kit.second.find_tasks(TaskFilter(), 100, before, text, with_parameters=with_parameters)
        sizes.append(len(page.tasks))
        found += [one.id for one in page.tasks]
        before = page.before
        if before is None:
            return sizes, found


async def _row(kit: Kit) -> tuple[object, ...]:
    columns = ", ".join(column.name for column in schema.execution.columns)
    rows = await kit.second.engine.read(lambda tx: tx.fetch(f"SELECT {columns} FROM execution ORDER BY id LIMIT 1"))
    return tuple(rows[0])
