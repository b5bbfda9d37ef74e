"""Items as files, over HTTP: every format, every bad question, and callers that go away."""

import asyncio
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.api.routes import PREFIX
from crawlfleet.cli.app import app
from crawlfleet.errors import Unavailable
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.ports.chunk_store import ChunkKind
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.wire.warc import write_record
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode
from tests.api.routes.results.test_group_results import GROUPS, leave, sharded, taken

FORMATS = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
CHUNKS = [b'{"n":0,"s":"a,b"}\n{"n":1}\n', b'{"n":2.5,"late":[1]}\n']


async def completed(site: Site, chunks: list[bytes]) -> str:
    node = await RemoteNode.online(site)
    task = await site.submit()
    one = await node.take()
    for number, chunk in enumerate(chunks):
        assert (await node.put(one, "items", number, chunk)).status == 204
    items = sum(chunk.count(b"\n") for chunk in chunks)
    await node.finish(one, {"items": items, "item_chunks": len(chunks)})
    return task


def rows(answer: Answer, format: str) -> list[Any]:
    assert answer.status == 200, answer.content
    match format:
        case "jsonl":
            return [json.loads(line) for line in answer.content.splitlines()]
        case "csv":
            return list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))
        case _:
            found: list[Any] = pq.read_table(io.BytesIO(answer.content)).to_pylist()
            return found


@pytest.mark.parametrize("format", FORMATS)
async def test_a_task_in_every_format(site: Site, format: str) -> None:
    task = await completed(site, CHUNKS)
    answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}", role="viewer")
    assert answer.headers["Content-Type"] == FORMATS[format]
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{task}.{format}"'
    assert answer.headers["Export-Complete"] == "true"
    assert [float(row["n"]) for row in rows(answer, format)] == [0, 1, 2.5]


@pytest.mark.parametrize("format", FORMATS)
async def test_a_group_in_every_format_in_the_order_of_its_members(site: Site, format: str) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 7, size=3)
    members = await taken(node, 3)
    path = f"{GROUPS}/{group}/results:export?format={format}"
    for one in (members[2], members[0]):
        await leave(node, one)
    assert (await site.get(path)).told[:2] == (409, "group_incomplete")
    answer = await site.get(f"{path}&partial=true")
    assert (answer.headers["Export-Complete"], answer.headers["Group-Complete"]) == ("false", "false")
    assert [int(row["n"]) for row in rows(answer, format)] == [0, 1, 2, 6]
    await leave(node, members[1])
    answer = await site.get(path)
    assert answer.headers["Export-Complete"] == "true"
    assert [int(row["n"]) for row in rows(answer, format)] == list(range(7))


@pytest.mark.parametrize("format", FORMATS)
async def test_nothing_is_a_valid_file(site: Site, format: str) -> None:
    waiting = await site.submit(queue="nobody")
    answer = await site.get(f"{PREFIX}/tasks/{waiting}/results:export?format={format}")
    assert (rows(answer, format), answer.headers["Export-Complete"]) == ([], "false")


@pytest.mark.parametrize("format", FORMATS)
async def test_of_a_running_task_what_has_come(site: Site, format: str) -> None:
    node = await RemoteNode.online(site)
    task = await site.submit()
    one = await node.take()
    await node.put(one, "items", 0, CHUNKS[0])
    answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}")
    assert (len(rows(answer, format)), answer.headers["Export-Complete"]) == (2, "false")


def payloads(answer: Answer) -> list[tuple[str, bytes]]:
    assert answer.status == 200, answer.content
    return [(one.rec_type, one.content_stream().read()) for one in ArchiveIterator(io.BytesIO(answer.content))][1:]


def page(number: int) -> bytes:
    fields = [("WARC-Target-URI", f"http://x/{number}"), ("Content-Type", "application/http")]
    return write_record("response", fields, b"HTTP/1.1 200 OK\r\n\r\npage %d" % number)


async def test_archives_are_exported_as_warc(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 2, size=1)
    members = await taken(node, 2)
    for number, one in enumerate(members):
        assert (await node.put(one, "warc", 0, page(number) + page(number + 10))).status == 204
        assert (await node.put(one, "warc", 1, page(number + 20))).status == 204
        # Only what the manifest names counts.
        await node.put(one, "warc", 2, page(99))
    path = f"{PREFIX}/tasks/{task_text(members[0].task)}/results:export?format=warc"
    assert len(payloads(await site.get(path))) == 4
    for one in members:
        await node.finish(one, {"items": 0, "item_chunks": 0, "warc_chunks": 2})
    answer = await site.get(path)
    assert payloads(answer) == [("response", b"page %d" % number) for number in (0, 10, 20)]
    assert answer.headers["Content-Type"] == "application/warc"
    assert answer.headers["Content-Disposition"].endswith('.warc.gz"')
    together = payloads(await site.get(f"{GROUPS}/{group}/results:export?format=warc"))
    assert together == [("response", b"page %d" % number) for number in (0, 10, 20, 1, 11, 21)]


async def test_a_task_without_an_archive_is_an_archive_of_nothing(site: Site) -> None:
    task = await completed(site, CHUNKS)
    answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format=warc")
    (about,) = ArchiveIterator(io.BytesIO(answer.content))
    assert about.rec_type == "warcinfo"


async def test_what_is_no_archive_is_refused(site: Site) -> None:
    node = await RemoteNode.online(site)
    await site.submit()
    one = await node.take()
    for data in (b"{}\n", page(1)[:-1], page(1) + b"x"):
        status, code, field = (await node.put(one, "warc", 0, data)).told
        assert (status, code, str(field)[:4]) == (422, "invalid_input", "body")
    assert await site.master.chunks.count(one.task, one.execution, "warc") == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("format=xlsx", "format"),
        ("format=", "format"),
        ("bom=true", "bom"),
        ("format=parquet&guard=true", "guard"),
        ("format=csv&bom=perhaps", "bom"),
        ("form=csv", "form"),
    ],
)
async def test_a_bad_question_is_told_what_is_wrong(site: Site, query: str, field: str) -> None:
    task = await site.submit()
    assert (await site.get(f"{PREFIX}/tasks/{task}/results:export?{query}")).told == (422, "invalid_input", field)


async def test_too_many_columns_are_a_422_and_not_half_a_file(site: Site) -> None:
    item = json.dumps({f"f{n}": n for n in range(2_001)}).encode() + b"\n"
    task = await completed(site, [item])
    for format in ("csv", "parquet"):
        answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}")
        assert answer.told == (422, "invalid_input", "format")
    assert (await site.get(f"{PREFIX}/tasks/{task}/results:export")).status == 200


@pytest.mark.parametrize("format", FORMATS)
async def test_items_that_are_gone_are_a_404(site: Site, format: str) -> None:
    task = await completed(site, CHUNKS)
    await site.master.chunks.drop([int(task.removeprefix("task-"), 16)])
    assert (await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}")).told[:2] == (404, "not_found")


@pytest.mark.parametrize("format", FORMATS)
async def test_a_place_that_refuses_is_a_503(site: Site, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await completed(site, CHUNKS)

    async def refuse(*_: object) -> bytes:
        raise Unavailable("the bucket says no", told="cannot read a chunk of results")

    monkeypatch.setattr(FolderChunks, "read", refuse)
    answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}")
    assert answer.told[:2] == (503, "unavailable")


class Reads:
    """Counts what is read, and fails from a number on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> None:
        self.count = 0
        read = FolderChunks.read

        async def counted(
            chunks: FolderChunks, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int
        ) -> bytes | None:
            self.count += 1
            if fail_at is not None and self.count > fail_at:
                raise Unavailable("the disk died")
            return await read(chunks, task, execution, kind, number)

        monkeypatch.setattr(FolderChunks, "read", counted)


async def test_parquet_without_its_library_is_refused_before_anything_is_read(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = await completed(site, CHUNKS)
    reads = Reads(monkeypatch)
    # For the import system: there is no such module.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = await site.get(f"{PREFIX}/tasks/{task}/results:export?format=parquet")
    assert answer.told == (422, "invalid_input", "format")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "pip install 'crawlfleet[parquet]'" in answer.json["detail"]
    file = tmp_path / "items.parquet"
    words = ["task", "export", task, "-o", str(file), "--url", site.url, "--token", site.tokens["viewer"]]
    shown = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert shown.exit_code != 0 and not file.exists()
    assert "pip install 'crawlfleet[parquet]'" in " ".join(shown.stderr.split())
    assert reads.count == 0
    for format in ("csv", "jsonl"):
        assert len(rows(await site.get(f"{PREFIX}/tasks/{task}/results:export?format={format}"), format)) == 3


async def test_a_caller_that_goes_away_ends_the_reading(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = b'{"text":"%s"}\n' % (b"x" * 1_000_000)
    task = await completed(site, [chunk] * 60)
    reads = Reads(monkeypatch)
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = f"{PREFIX}/tasks/{task}/results:export"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.tokens['viewer']}\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.transport.abort()
    seen = -1

    async def is_quiet() -> bool:
        nonlocal seen
        before, seen = seen, reads.count
        return before == seen

    await site.until(is_quiet)
    assert reads.count < 60


async def test_a_place_that_fails_in_the_middle_breaks_the_download(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller sees a broken answer, never a short file that looks whole."""
    import aiohttp

    chunk = b'{"text":"%s"}\n' % (b"x" * 1_000_000)
    task = await completed(site, [chunk] * 5)
    Reads(monkeypatch, fail_at=2)
    with pytest.raises(aiohttp.ClientPayloadError):
        await site.get(f"{PREFIX}/tasks/{task}/results:export")


NOTES = [b'{"_page":"/1","status":200}\n{"n":0}\n', b'{"n":1}\n', b'{"_page":"/2","status":304}\n']


@pytest.mark.parametrize("format", FORMATS)
async def test_notes_on_pages_are_no_items(site: Site, format: str) -> None:
    task = await completed(site, NOTES)
    path = f"{PREFIX}/tasks/{task}/results:export?format={format}"
    found = rows(await site.get(path), format)
    assert [(set(row), int(row["n"])) for row in found] == [({"n"}, 0), ({"n"}, 1)]
    pages = rows(await site.get(f"{path}&kind=pages"), format)
    assert [(set(row), row["_page"]) for row in pages] == [({"_page", "status"}, "/1"), ({"_page", "status"}, "/2")]
    assert len(rows(await site.get(f"{path}&kind=all"), format)) == 4
    assert (await site.get(f"{path}&kind=notes")).told == (422, "invalid_input", "kind")


async def test_an_archive_has_no_notes(site: Site) -> None:
    task = await completed(site, NOTES)
    path = f"{PREFIX}/tasks/{task}/results:export?format=warc&kind=pages"
    assert (await site.get(path)).told == (422, "invalid_input", "kind")


async def test_quality_is_that_of_items_and_on_demand_that_of_notes(site: Site) -> None:
    task = await completed(site, NOTES)
    path = f"{PREFIX}/tasks/{task}/results:quality"
    for query, items, fields in (("", 2, ["n"]), ("?kind=pages", 2, ["_page", "status"]), ("?kind=all", 4, None)):
        found = (await site.get(path + query)).json
        assert found["items"] == items
        assert fields is None or [field["name"] for field in found["fields"]] == fields
