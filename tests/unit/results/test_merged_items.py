"""Merging: the same list whatever the pages, the windows and the sizes of chunks."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.results import merged_items
from crawlfleet.results.merged_items import Merged, MergedPlace, Part, Window

Items = list[list[list[int]]]
"""By task, by chunk."""


class Kept:
    """Chunks in memory: what is read is counted, so that nothing is read twice at once."""

    trouble = None

    def __init__(self, items: Items) -> None:
        self._items = items

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        return b"".join(b'{"n":%d}\n' % n for n in self._items[task - 1][number])

    async def count(self, task: TaskId, execution: ExecutionId, kind: ChunkKind) -> int:
        return len(self._items[task - 1])


def merged(items: Items, window: int, skipped: set[int]) -> Merged:
    async def parts(after: TaskId) -> Window:
        tasks = [task for task in range(1, len(items) + 1) if task > after][:window]
        found = [Part(task, task * 10, len(items[task - 1])) for task in tasks if task not in skipped]
        return Window(found, tasks[-1] if len(tasks) == window else None)

    return Merged(Kept(items), parts)  # type: ignore[arg-type]


numbered = st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=3), max_size=8)


@settings(max_examples=150)
@given(numbered, st.integers(1, 4), st.integers(1, 7), st.sets(st.integers(1, 8)), st.integers(1, 40))
async def test_pages_and_stream_give_the_same_list(
    items: Items, window: int, limit: int, skipped: set[int], max_bytes: int
) -> None:
    expected = [n for task, chunks in enumerate(items, 1) if task not in skipped for chunk in chunks for n in chunk]
    whole = merged(items, window, skipped)
    streamed = b"".join([data async for data in whole.stream_lines()])
    assert [msgspec.json.decode(line)["n"] for line in streamed.splitlines()] == expected
    found: list[int] = []
    place: MergedPlace | None = MergedPlace()
    while place is not None:
        page = await whole.read_page(place, limit, max_bytes=max_bytes)
        assert len(page.lines) <= limit
        found += [msgspec.json.decode(line)["n"] for line in page.lines]
        place = None if page.next is None else MergedPlace.from_text(page.next.text, field="cursor")
    assert found == expected


async def test_a_page_looks_at_a_bounded_number_of_members() -> None:
    items: Items = [[] for _ in range(merged_items.PAGE_PARTS)] + [[[7]]]
    page = await merged(items, 100, set()).read_page(MergedPlace(), 10)
    assert (page.lines, page.next) == ([], MergedPlace(merged_items.PAGE_PARTS))
    assert page.next is not None
    rest = await merged(items, 100, set()).read_page(page.next, 10)
    assert ([bytes(line) for line in rest.lines], rest.next) == ([b'{"n":7}'], None)
