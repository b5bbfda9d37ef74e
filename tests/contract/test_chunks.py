"""The contract of the place for results, over every implementation: each of `suite_chunks` is one behaviour."""

import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crawlfleet.errors import Unavailable
from crawlfleet.execution.results.folder import FolderChunks
from crawlfleet.ports.artifacts import ChunkStore
from tests.contract import suite_chunks
from tests.contract.suite_chunks import RUN, TASK

pytestmark = pytest.mark.contract

Behaviour = Callable[[ChunkStore], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {
    name: behaviour
    for name, behaviour in inspect.getmembers(suite_chunks, inspect.iscoroutinefunction)
    if behaviour.__module__ == suite_chunks.__name__
}
STORES: dict[str, Callable[[Path], ChunkStore]] = {"folder": lambda path: FolderChunks(path / "results")}


def files_in(folder: Path, kinds: str = "*.*") -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(kinds)]


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
async def test_chunks(make_store: Callable[[Path], ChunkStore], behaviour: Behaviour, tmp_path: Path) -> None:
    await behaviour(make_store(tmp_path))


async def test_the_folder_shows_one_compressed_file_per_chunk_and_nothing_else(tmp_path: Path) -> None:
    chunks = FolderChunks(tmp_path)
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    assert files_in(tmp_path) == ["112233/1122334455667788/1122334455669900/items-0.jsonl.zst"]
    await chunks.drop([TASK])
    assert files_in(tmp_path, "*") == []


async def test_a_half_written_file_is_no_chunk(tmp_path: Path) -> None:
    chunks = FolderChunks(tmp_path)
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    (name,) = files_in(tmp_path)
    (tmp_path / name).with_name("items-1.jsonl.zst.1-1.part").write_bytes(b"left by a crash")
    assert await chunks.count(TASK, RUN, "items") == 1
    assert await chunks.read(TASK, RUN, "items", 1) is None


async def test_a_folder_that_cannot_be_written_is_unavailable_and_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot write a chunk"):
        await FolderChunks(tmp_path / "file").put(TASK, RUN, "items", 0, b"{}\n")


async def test_a_full_disk_is_unavailable_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = FolderChunks(tmp_path)
    await chunks.put(TASK, RUN, "items", 0, b'{"n": 1}\n')

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(Unavailable, match="No space left"):
        await chunks.put(TASK, RUN, "items", 0, b'{"n": 2}\n')
    assert await chunks.read(TASK, RUN, "items", 0) == b'{"n": 1}\n'
    assert len(files_in(tmp_path)) == 1


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    chunks = FolderChunks(tmp_path)
    await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    (name,) = files_in(tmp_path)
    (tmp_path / name).write_bytes(b"not zstd at all")
    with pytest.raises(Unavailable, match="cannot read a chunk"):
        await chunks.read(TASK, RUN, "items", 0)
