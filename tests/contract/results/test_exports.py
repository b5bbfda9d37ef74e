"""Exports read every place of results alike."""

import io
import itertools
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crawlfleet.errors import Unavailable
from crawlfleet.ports.chunk_store import ResultsPlace
from crawlfleet.results.chunk_bucket import ObjectChunks
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.results.export_stream import ExportOptions, Format, Parts, Source, start_export
from crawlfleet.results.merged_items import Part
from testkit.servers import S3Server
from tests.contract.results.suite_chunks import OTHER_RUN, OTHER_TASK, RUN, TASK

pytestmark = pytest.mark.contract
BUCKETS = itertools.count(1)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultsPlace:
    if request.param == "folder":
        return FolderChunks(tmp_path / "results")
    server: S3Server = request.getfixturevalue("s3_server")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectChunks(server.create_bucket(f"exports-{next(BUCKETS)}"), server.environment)


async def wanted() -> None:
    pass


async def file_of(place: ResultsPlace, format: Format) -> bytes:
    source = Source(place, Parts(Part(TASK, RUN, 2), Part(OTHER_TASK, OTHER_RUN, 1)))
    return b"".join([data async for data in await start_export(source, ExportOptions(format), wanted)])


async def fill(place: ResultsPlace) -> None:
    await place.put(TASK, RUN, "items", 0, b'{"n":1}\n{"n":2}\n')
    await place.put(TASK, RUN, "items", 1, b'{"n":3}\n')
    await place.put(OTHER_TASK, OTHER_RUN, "items", 0, b'{"n":4,"late":true}\n')


async def test_every_format_over_every_place(place: ResultsPlace) -> None:
    await fill(place)
    assert await file_of(place, "jsonl") == b'{"n":1}\n{"n":2}\n{"n":3}\n{"n":4,"late":true}\n'
    assert await file_of(place, "csv") == b"n,late\r\n1,\r\n2,\r\n3,\r\n4,true\r\n"
    table = pq.read_table(io.BytesIO(await file_of(place, "parquet")))
    assert table.to_pydict() == {"n": [1, 2, 3, 4], "late": [None, None, None, True]}


async def test_a_bucket_that_refuses_is_unavailable_before_the_file_begins(s3_server: S3Server) -> None:
    place = ObjectChunks("s3://no-such-bucket/x", s3_server.environment)
    for format in ("csv", "parquet"):
        with pytest.raises(Unavailable):
            await start_export(Source(place, Parts(Part(TASK, RUN, 1))), ExportOptions(format), wanted)
