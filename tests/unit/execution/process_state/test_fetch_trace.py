"""The requests of a traced execution: the first hundred, of its own tasks and of no other."""

import asyncio

import pytest

from crawlfleet.execution.process_state.fetch_trace import (
    MAX_FETCHES,
    FetchRecord,
    begin_fetch_trace,
    current_fetch_trace,
)


async def test_each_execution_has_its_own_and_its_tasks_share_it() -> None:
    assert current_fetch_trace() is None

    async def fetch(url: str) -> None:
        trace = current_fetch_trace()
        assert trace is not None
        trace.add(url, 1, 200, "")

    async def execute(name: str) -> list[str]:
        trace = begin_fetch_trace()
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(fetch(f"{name}{number}"))
        return [record.url for record in trace.records]

    one, other = await asyncio.gather(asyncio.create_task(execute("a")), asyncio.create_task(execute("b")))
    assert (sorted(one), sorted(other)) == (["a0", "a1", "a2"], ["b0", "b1", "b2"])
    assert current_fetch_trace() is None


async def test_the_first_hundred_are_kept() -> None:
    trace = begin_fetch_trace()
    for number in range(300):
        trace.add(str(number), 1, 200, "")
    assert [record.url for record in trace.records] == [str(number) for number in range(MAX_FETCHES)]
    assert all(record.is_possible for record in trace.records)


@pytest.mark.parametrize(
    "record",
    [
        FetchRecord("", 0, 1),
        FetchRecord("", -1, 1),
        FetchRecord("", 2, 1),
        FetchRecord("", 1, 1 << 63),
        FetchRecord("", 1, 1, -1),
        FetchRecord("", 1, 1, 1_000),
    ],
)
def test_what_cannot_be_is_known(record: FetchRecord) -> None:
    assert not record.is_possible
