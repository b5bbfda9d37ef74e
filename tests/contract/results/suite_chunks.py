"""What every place for chunks of results does."""

import asyncio

from crawlfleet.ports.chunk_store import CHUNK_BYTES, ChunkStore, ResultsPlace
from crawlfleet.results.chunk_names import parse_task

TASK, OTHER_TASK = 0x1122334455667788, 0x1122334455667799
RUN, OTHER_RUN = 0x1122334455669900, 0x1122334455669911


async def what_is_put_is_read(chunks: ChunkStore) -> None:
    data = '{"name": "茶"}\n{"n": 1}\n'.encode()
    await chunks.put(TASK, RUN, "items", 0, data)
    assert await chunks.read(TASK, RUN, "items", 0) == data


async def what_was_never_put_is_none(chunks: ChunkStore) -> None:
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    assert await chunks.read(TASK, RUN, "items", 1) is None
    assert await chunks.read(TASK, RUN, "log", 0) is None
    assert await chunks.read(TASK, OTHER_RUN, "items", 0) is None
    assert await chunks.read(OTHER_TASK, RUN, "items", 0) is None


async def the_same_number_again_replaces(chunks: ChunkStore) -> None:
    await chunks.put(TASK, RUN, "items", 0, b'{"n": 1}\n')
    await chunks.put(TASK, RUN, "items", 0, b'{"n": 2}\n')
    assert await chunks.read(TASK, RUN, "items", 0) == b'{"n": 2}\n'
    assert await chunks.count(TASK, RUN, "items") == 1


async def an_empty_chunk_is_a_chunk(chunks: ChunkStore) -> None:
    await chunks.put(TASK, RUN, "log", 0, b"")
    assert await chunks.read(TASK, RUN, "log", 0) == b""
    assert await chunks.count(TASK, RUN, "log") == 1


async def the_largest_chunk_is_kept(chunks: ChunkStore) -> None:
    data = b'{"n": "' + b"x" * (CHUNK_BYTES - 10) + b'"}\n'
    await chunks.put(TASK, RUN, "items", 0, data)
    assert await chunks.read(TASK, RUN, "items", 0) == data


async def records_are_kept_as_they_are_beside_the_others(chunks: ChunkStore) -> None:
    records = bytes(range(256)) * 40_000
    await chunks.put(TASK, RUN, "warc", 0, records)
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    assert await chunks.read(TASK, RUN, "warc", 0) == records
    assert [await chunks.count(TASK, RUN, kind) for kind in ("items", "log", "warc")] == [1, 0, 1]
    await chunks.drop([TASK])
    assert await chunks.read(TASK, RUN, "warc", 0) is None


async def counting_stops_at_a_gap(chunks: ChunkStore) -> None:
    assert await chunks.count(TASK, RUN, "items") == 0
    for number in (0, 1, 3):
        await chunks.put(TASK, RUN, "items", number, b"{}\n")
    await chunks.put(TASK, RUN, "log", 2, b"{}\n")
    assert await chunks.count(TASK, RUN, "items") == 2
    await chunks.put(TASK, RUN, "items", 2, b"{}\n")
    assert await chunks.count(TASK, RUN, "items") == 4


async def dropping_takes_all_executions_of_a_task_and_no_neighbour(chunks: ChunkStore) -> None:
    for task in (TASK, OTHER_TASK):
        for run in (RUN, OTHER_RUN):
            await chunks.put(task, run, "items", 0, b"{}\n")
            await chunks.put(task, run, "log", 0, b"{}\n")
    await chunks.drop([TASK])
    assert await chunks.count(TASK, RUN, "items") == await chunks.count(TASK, OTHER_RUN, "log") == 0
    assert await chunks.read(TASK, RUN, "items", 0) is None
    assert await chunks.count(OTHER_TASK, RUN, "items") == await chunks.count(OTHER_TASK, OTHER_RUN, "log") == 1


async def dropping_again_or_nothing_changes_nothing(chunks: ChunkStore) -> None:
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    await chunks.drop([])
    await chunks.drop([OTHER_TASK])
    assert await chunks.count(TASK, RUN, "items") == 1
    await chunks.drop([TASK, TASK])
    await chunks.drop([TASK])
    assert await chunks.count(TASK, RUN, "items") == 0


async def a_dropped_task_may_be_written_again(chunks: ChunkStore) -> None:
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    await chunks.drop([TASK])
    await chunks.put(TASK, RUN, "items", 0, b'{"n": 2}\n')
    assert await chunks.read(TASK, RUN, "items", 0) == b'{"n": 2}\n'


async def many_at_once_are_all_kept(chunks: ChunkStore) -> None:
    numbers = range(20)
    await asyncio.gather(*(chunks.put(TASK, RUN, "items", n, b'{"n": %d}\n' % n) for n in numbers))
    assert await chunks.count(TASK, RUN, "items") == len(numbers)
    assert [await chunks.read(TASK, RUN, "items", n) for n in numbers] == [b'{"n": %d}\n' % n for n in numbers]


async def of_two_writers_of_one_number_one_is_kept_whole(chunks: ChunkStore) -> None:
    said = [b'{"n": %d}\n' % n * 1_000 for n in range(8)]
    await asyncio.gather(*(chunks.put(TASK, RUN, "items", 0, data) for data in said))
    assert await chunks.read(TASK, RUN, "items", 0) in said


async def writing_while_neighbours_are_dropped_loses_nothing(chunks: ChunkStore) -> None:
    async def write(task: int) -> None:
        for number in range(5):
            await chunks.put(task, RUN, "items", number, b"{}\n")

    async def drop(task: int) -> None:
        for _ in range(10):
            await chunks.put(task, RUN, "items", 0, b"{}\n")
            await chunks.drop([task])

    await asyncio.gather(write(TASK), *(drop(OTHER_TASK + n) for n in range(3)))
    assert await chunks.count(TASK, RUN, "items") == 5


async def of_many_marks_the_first_stays_until_it_is_replaced(place: ResultsPlace) -> None:
    assert await place.mark() is None
    await asyncio.gather(*(place.set_mark(f"mark-{n}") for n in range(5)))
    kept = await place.mark()
    assert kept in {f"mark-{n}" for n in range(5)}
    await place.set_mark("late")
    assert await place.mark() == kept
    await place.set_mark("other", is_replacing=True)
    assert await place.mark() == "other"


async def a_mark_is_no_chunk(place: ResultsPlace) -> None:
    await place.put(TASK, RUN, "items", 0, b"{}\n")
    await place.set_mark("mark")
    assert await place.count(TASK, RUN, "items") == 1
    await place.drop([TASK])
    assert await place.mark() == "mark"


async def every_file_is_listed_by_task_and_moves_as_it_is(chunks: ResultsPlace) -> None:
    assert [page async for page in chunks.list_files()] == []
    for task, kind in ((OTHER_TASK, "items"), (TASK, "items"), (TASK, "warc")):
        await chunks.put(task, RUN, kind, 0, b"{}\n")  # type: ignore[arg-type]
    await chunks.set_mark("mark")
    files = [file for page in [page async for page in chunks.list_files()] for file in page]
    assert [parse_task(file.name) for file in files] == [TASK, TASK, OTHER_TASK]
    for index in range(len(files)):
        pages = [page async for page in chunks.list_files(files[index].name)]
        assert [file for page in pages for file in page] == files[index + 1 :]
    bodies = {file.name: await chunks.read_file(file.name) for file in files}
    assert [len(body or b"") for body in bodies.values()] == [file.size_bytes for file in files]
    await chunks.drop([TASK, OTHER_TASK])
    assert [await chunks.read_file(file.name) for file in files] == [None] * 3
    for name, body in bodies.items():
        assert body is not None
        await chunks.write_file(name, body)
    assert await chunks.read(OTHER_TASK, RUN, "items", 0) == b"{}\n"
    assert [page async for page in chunks.list_files()] == [files]


async def a_removed_mark_is_none_and_may_be_set_again(chunks: ResultsPlace) -> None:
    await chunks.remove_mark()
    await chunks.set_mark("first")
    await chunks.remove_mark()
    assert await chunks.mark() is None
    await chunks.set_mark("second")
    assert await chunks.mark() == "second"
