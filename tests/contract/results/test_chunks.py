"""The contract of the place for results, over every implementation: each of `suite_chunks` is one behaviour."""

import asyncio
import inspect
import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.ports.chunk_store import CHUNK_BYTES, MARK, ResultsPlace
from crawlfleet.results import chunk_bucket
from crawlfleet.results.chunk_bucket import ObjectChunks
from crawlfleet.results.chunk_folder import FolderChunks
from testkit.servers import S3Server
from tests.contract.results import suite_chunks
from tests.contract.results.suite_chunks import OTHER_TASK, RUN, TASK

pytestmark = pytest.mark.contract

Behaviour = Callable[[ResultsPlace], Awaitable[None]]
BEHAVIOURS: dict[str, Behaviour] = {
    name: behaviour
    for name, behaviour in inspect.getmembers(suite_chunks, inspect.iscoroutinefunction)
    if behaviour.__module__ == suite_chunks.__name__
}
BUCKETS = itertools.count(1)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ResultsPlace:
    if request.param == "folder":
        return FolderChunks(tmp_path / "results")
    found: ObjectChunks = request.getfixturevalue("s3_place")
    return found


@pytest.fixture
def s3_place(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> ObjectChunks:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectChunks(f"{s3_server.create_bucket(f'chunks-{next(BUCKETS)}')}/some/where", s3_server.environment)


def files_in(folder: Path, kinds: str = "*.*") -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(kinds)]


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
async def test_chunks(place: ResultsPlace, behaviour: Behaviour) -> None:
    await behaviour(place)
    assert place.trouble is None


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
    assert chunks.trouble == "cannot read a chunk of results"


# -- S3


async def test_objects_have_the_names_of_files(s3_place: ObjectChunks, tmp_path: Path) -> None:
    """Results move between a folder and a bucket by a plain copy."""
    for chunks in (s3_place, FolderChunks(tmp_path)):
        await chunks.put(TASK, RUN, "items", 12, b"{}\n")
        await chunks.set_mark("mark")
    listed = await s3_place._store.list().collect_async()
    assert sorted(meta["path"] for meta in listed) == sorted([*files_in(tmp_path), MARK])


async def test_more_than_a_page_is_counted_and_dropped(s3_place: ObjectChunks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_bucket, "PAGE", 7)
    await asyncio.gather(*(s3_place.put(TASK, RUN, "items", number, b"{}\n") for number in range(30)))
    assert await s3_place.count(TASK, RUN, "items") == 30
    await s3_place.drop([TASK])
    assert await s3_place.count(TASK, RUN, "items") == 0


async def test_what_is_on_its_way_is_bounded(s3_place: ObjectChunks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_bucket, "HELD_BYTES", 3 * CHUNK_BYTES)
    data = b'{"n": "' + b"x" * (CHUNK_BYTES - 10) + b'"}\n'
    puts = [s3_place.put(TASK, RUN, "items", number, data) for number in range(8)]
    done = await asyncio.gather(*puts, return_exceptions=True)
    assert done[:3] == [None] * 3
    assert all(isinstance(error, Unavailable) for error in done[3:])
    await s3_place.put(TASK, RUN, "items", 3, data)
    assert await s3_place.count(TASK, RUN, "items") == 4


async def test_a_bucket_that_does_not_answer_is_unavailable_in_time_and_works_again(
    s3_place: ObjectChunks, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await s3_place.put(TASK, RUN, "items", 0, b'{"n": 1}\n')
    monkeypatch.setattr(chunk_bucket, "CALL_S", 0.5)
    s3_server.pause()
    try:
        for call in (
            s3_place.put(TASK, RUN, "items", 1, b"{}\n"),
            s3_place.read(TASK, RUN, "items", 0),
            s3_place.count(TASK, RUN, "items"),
            s3_place.drop([OTHER_TASK]),
            s3_place.mark(),
        ):
            with pytest.raises(Unavailable):
                await call
        assert s3_place.trouble is not None
    finally:
        s3_server.resume()
    monkeypatch.setattr(chunk_bucket, "CALL_S", 20.0)
    assert await s3_place.read(TASK, RUN, "items", 0) == b'{"n": 1}\n'
    assert s3_place.trouble is None


async def test_a_bucket_that_is_not_there_is_a_wrong_setting_at_the_start_and_unavailable_later(
    s3_server: S3Server, s3_place: ObjectChunks
) -> None:
    chunks = ObjectChunks("s3://no-such-bucket/x", s3_server.environment)
    with pytest.raises(ConfigError, match="results: s3://no-such-bucket/x: there is no such bucket"):
        await chunks.mark()
    with pytest.raises(ConfigError, match="no such bucket"):
        await chunks.set_mark("mark")
    with pytest.raises(Unavailable):
        await chunks.put(TASK, RUN, "items", 0, b"{}\n")
    with pytest.raises(Unavailable):
        await chunks.read(TASK, RUN, "items", 0)


async def test_keys_that_are_refused_are_a_wrong_setting(s3_place: ObjectChunks, s3_server: S3Server) -> None:
    s3_server.believe_keys(False)
    try:
        with pytest.raises(ConfigError, match=r"results: .* AWS_ variables may not"):
            await s3_place.mark()
        with pytest.raises(Unavailable):
            await s3_place.put(TASK, RUN, "items", 0, b"{}\n")
    finally:
        s3_server.believe_keys(True)


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": "a"}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_SKIP_SIGNATURE": "false"}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "AWS_ENDPOINT_URL"),
    ],
)
def test_what_lacks_is_named_before_anybody_is_asked(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=f"results: .*{named}"):
        ObjectChunks("s3://bucket", environment)
