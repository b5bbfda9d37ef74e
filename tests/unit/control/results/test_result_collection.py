"""Chunks are taken from the node that holds the execution, and from nobody else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from crawlfleet.control.results.result_collection import Collect, StaleExecution, checked_lines
from crawlfleet.errors import InvalidInput
from crawlfleet.ports.chunk_store import CHUNK_BYTES, CHUNKS
from crawlfleet.results.chunk_folder import FolderChunks
from testkit.factories import Kit
from tests.unit.store.store_kit import sqlite_kit

LINE = b'{"n":1}\n'


@pytest_asyncio.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
def chunks(tmp_path: Path) -> FolderChunks:
    return FolderChunks(tmp_path / "results")


async def test_the_holder_of_the_execution_is_heard_before_and_after_its_start(kit: Kit, chunks: FolderChunks) -> None:
    collect, run = Collect(store=kit.store, chunks=chunks), await kit.run_one(await kit.node())
    await collect.collect_chunk(run.node.id, run.task, run.execution, "items", 0, LINE)
    await kit.start(run)
    await collect.collect_chunk(run.node.id, run.task, run.execution, "items", 1, LINE)
    assert await chunks.count(run.task, run.execution, "items") == 2


async def test_others_are_told_that_they_are_stale_and_nothing_is_kept(kit: Kit, chunks: FolderChunks) -> None:
    collect, run = Collect(store=kit.store, chunks=chunks), await kit.run_one(await kit.node())
    other = await kit.run_one(await kit.node())
    for node, task, execution in [
        (other.node.id, run.task, run.execution),
        (run.node.id, run.task, other.execution),
        (run.node.id, other.task, run.execution),
        (run.node.id, 12345, run.execution),
    ]:
        with pytest.raises(StaleExecution) as refused:
            await collect.collect_chunk(node, task, execution, "items", 0, LINE)
        assert (refused.value.code, refused.value.http_status) == ("stale_execution", 409)
    assert await chunks.count(run.task, run.execution, "items") == 0


async def test_an_execution_that_ended_or_was_lost_is_stale(kit: Kit, chunks: FolderChunks) -> None:
    collect = Collect(store=kit.store, chunks=chunks)
    done, lost = await kit.run(await kit.node(), 2)
    await kit.complete(done)
    await kit.end(lost.node)
    for run in (done, lost):
        with pytest.raises(StaleExecution):
            await collect.collect_chunk(run.node.id, run.task, run.execution, "items", 0, LINE)


@pytest.mark.parametrize("number", [-1, CHUNKS])
async def test_a_number_out_of_bounds_is_refused_by_name(kit: Kit, chunks: FolderChunks, number: int) -> None:
    run = await kit.run_one(await kit.node())
    with pytest.raises(InvalidInput, match="number"):
        await Collect(store=kit.store, chunks=chunks).collect_chunk(
            run.node.id, run.task, run.execution, "items", number, LINE
        )


def test_lines_get_their_ends_and_empty_ones_go() -> None:
    assert checked_lines("items", b'{"a": 1}\n\n  {"b":2}') == b'{"a": 1}\n{"b":2}\n'
    assert checked_lines("items", b"") == b""


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        ("items", b'{"a": 1}\n{"b"', "body"),
        ("items", b'{"a": "\xff"}\n', "body"),
        ("items", b"1\n", "body[0]"),
        ("items", b'{"a": 1}\n[2]\n', "body[1]"),
        ("items", b'{"a":\n1}\n', "body[0]"),
        ("items", b"[" * 100_000, "body"),
        ("items", b" " * (CHUNK_BYTES + 1), "body"),
        ("log", b'{"at": 1, "level": "info"}\n', "body"),
        ("log", b'{"at": 1, "level": "loud", "message": "x"}\n', "body[0].level"),
        ("log", b'{"at": -1, "level": "info", "message": "x"}\n', "body[0].at"),
    ],
)
def test_what_a_reader_could_not_read_is_refused_by_name(kind: str, data: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_lines(kind, data)  # type: ignore[arg-type]
    assert refused.value.field == field
