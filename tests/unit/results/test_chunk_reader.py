"""Pages over chunks: every line once, in order, however pages and chunks fall."""

from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.results.chunk_reader import Chunks, Place

TASK, RUN = 7, 8


class Kept:
    """Chunks in memory, as many as were put."""

    trouble = None

    def __init__(self, *chunks: list[int]) -> None:
        self.chunks = [b"".join(b'{"n":%d}\n' % n for n in chunk) for chunk in chunks]
        self.reads = 0

    async def put(self, *_: object) -> None:
        raise NotImplementedError

    async def read(self, task: int, execution: int, kind: str, number: int) -> bytes | None:
        self.reads += 1
        return self.chunks[number] if number < len(self.chunks) else None

    async def count(self, task: int, execution: int, kind: str) -> int:
        return len(self.chunks)

    async def drop(self, tasks: object) -> None:
        raise NotImplementedError

    def list_files(self, after: str = "") -> NoReturn:
        raise NotImplementedError


def numbers(lines: list[msgspec.Raw]) -> list[int]:
    return [msgspec.json.decode(line)["n"] for line in lines]


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 5), max_size=6), limit=st.integers(1, 7))
async def test_pages_give_every_line_once_and_in_order(sizes: list[int], limit: int) -> None:
    everything = iter(range(100))
    kept = Kept(*[[next(everything) for _ in range(size)] for size in sizes])
    chunks, place, seen = Chunks(kept, TASK, RUN, "items"), Place(), []
    while True:
        page = await chunks.read_page(place, limit)
        assert len(page.lines) <= limit
        seen += numbers(page.lines)
        place = Place.from_text(page.next.text, field="cursor")
        if page.is_end:
            break
    assert seen == list(range(sum(sizes)))
    assert (await chunks.read_page(place, limit)).lines == []


async def test_the_end_of_a_page_goes_on_with_what_is_written_later() -> None:
    kept = Kept([0, 1])
    chunks = Chunks(kept, TASK, RUN, "log")
    first = await chunks.read_page(Place(), 10)
    assert numbers(first.lines) == [0, 1] and first.is_end
    kept.chunks += Kept([2, 3]).chunks
    assert numbers((await chunks.read_page(first.next, 10)).lines) == [2, 3]


async def test_a_page_of_large_items_is_shorter_and_never_empty() -> None:
    chunks = Chunks(Kept([0, 1, 2, 3]), TASK, RUN, "items")
    page = await chunks.read_page(Place(), 10, max_bytes=15)
    assert numbers(page.lines) == [0, 1] and not page.is_end
    assert numbers((await chunks.read_page(Place(), 10, max_bytes=1)).lines) == [0]


async def test_a_filter_that_keeps_little_reads_only_so_much() -> None:
    kept = Kept(*([n] for n in range(10)))
    chunks = Chunks(kept, TASK, RUN, "log")
    page = await chunks.read_page(Place(), 10, keep=lambda line: numbers([line]) == [7], max_chunks=4)
    assert (page.lines, page.is_end, kept.reads) == ([], False, 4)
    page = await chunks.read_page(page.next, 10, keep=lambda line: numbers([line]) == [7], max_chunks=9)
    assert numbers(page.lines) == [7] and page.is_end


async def test_only_the_chunks_of_the_manifest_are_read() -> None:
    kept = Kept([0], [1], [2])
    chunks = Chunks(kept, TASK, RUN, "items", expected=2)
    assert numbers((await chunks.read_page(Place(), 10)).lines) == [0, 1]
    assert b"".join([data async for data in chunks.stream_lines()]) == b'{"n":0}\n{"n":1}\n'


async def test_items_that_are_gone_are_told(tmp_path: Path) -> None:
    chunks = Chunks(FolderChunks(tmp_path), TASK, RUN, "items", expected=1)
    with pytest.raises(NotFound, match="items of exec-0000000000000008 are no longer kept"):
        await chunks.read_page(Place(), 10)


@pytest.mark.parametrize("text", ["", "1", ".", "1.", ".1", "-1.0", "1.2.3", "a.b", "1.٣", "9999999.0", "1.9999999999"])
def test_a_place_that_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Place.from_text(text, field="cursor")
    assert refused.value.field == "cursor"


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 5), max_size=6), limit=st.integers(1, 7), max_chunks=st.integers(1, 4))
async def test_pages_from_the_end_give_every_line_once(sizes: list[int], limit: int, max_chunks: int) -> None:
    everything = iter(range(100))
    kept = Kept(*[[next(everything) for _ in range(size)] for size in sizes])
    chunks, seen = Chunks(kept, TASK, RUN, "log"), list[int]()
    place = Place(await chunks.count_chunks())
    while True:
        page = await chunks.read_page_before(
            place, limit, keep=lambda line: numbers([line])[0] % 2 == 0, max_chunks=max_chunks
        )
        assert len(page.lines) <= limit
        seen[:0] = numbers(page.lines)
        place = Place.from_text(page.next.text, field="before")
        if page.is_end:
            break
    assert seen == [n for n in range(sum(sizes)) if n % 2 == 0]


async def test_from_the_end_only_so_much_is_read() -> None:
    kept = Kept(*([n] for n in range(1_000)))
    page = await Chunks(kept, TASK, RUN, "log").read_page_before(Place(1_000), 2)
    assert (numbers(page.lines), page.is_end, kept.reads) == ([998, 999], False, 3)
    page = await Chunks(kept, TASK, RUN, "log").read_page_before(Place(1_000), 2, keep=lambda _: False, max_chunks=10)
    assert (page.lines, page.is_end, kept.reads) == ([], False, 3 + 10)


async def test_a_late_page_of_a_running_task_costs_what_the_first_does() -> None:
    class Uncounted(Kept):
        async def count(self, task: int, execution: int, kind: str) -> int:
            raise AssertionError("counting takes longer the more there are")

    kept = Uncounted(*([n] for n in range(1_000)))
    page = await Chunks(kept, TASK, RUN, "items").read_page(Place(990), 5)
    assert (numbers(page.lines), kept.reads) == ([990, 991, 992, 993, 994], 6)
