"""Chunks over HTTP: who may send them, how they are packed, and how large they may be."""

import asyncio
from pathlib import Path

import pytest
import zstandard

from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.ports.chunk_store import CHUNK_BYTES
from crawlfleet.wire.sync import AssignmentBody
from tests.api.kit import Answer, Site
from tests.api.remote_node import RemoteNode

LINES = b'{"n":0}\n{"n":1}\n'
ZSTD = {"Content-Encoding": "zstd"}


async def running(site: Site) -> tuple[RemoteNode, AssignmentBody]:
    node = await RemoteNode.online(site)
    await site.submit()
    return node, await node.take()


async def chunks_of(site: Site, one: AssignmentBody, kind: str = "items") -> int:
    return await site.master.chunks.count(one.task, one.execution, kind)  # type: ignore[arg-type]


async def test_chunks_are_kept_plain_or_packed(site: Site) -> None:
    node, one = await running(site)
    assert (await node.put(one, "items", 0, LINES)).status == 204
    packed = zstandard.ZstdCompressor().compress(LINES)
    assert (await node.put(one, "items", 1, packed, headers=ZSTD)).status == 204
    line = b'{"at":1700000000000,"level":"info","message":"hello"}\n'
    assert (await node.put(one, "log", 0, line)).status == 204
    read = site.master.chunks.read
    assert [await read(one.task, one.execution, "items", number) for number in range(2)] == [LINES, LINES]
    assert await read(one.task, one.execution, "log", 0) == line


async def test_the_same_number_again_replaces(site: Site) -> None:
    node, one = await running(site)
    for data in (LINES, b'{"n":2}\n'):
        assert (await node.put(one, "items", 0, data)).status == 204
    assert await site.master.chunks.read(one.task, one.execution, "items", 0) == b'{"n":2}\n'


async def test_a_disk_that_takes_no_results_is_not_called_the_store(site: Site, tmp_path: Path) -> None:
    node, one = await running(site)
    (tmp_path / "results").write_text("no folder any more")
    answer = await node.put(one, "items", 0, LINES)
    assert answer.told == (503, "unavailable", None)
    assert answer.json["detail"] == "cannot write a chunk of results"
    assert answer.headers["Retry-After"]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 5_000])
async def test_a_number_that_nobody_can_read_is_refused(site: Site, number: bytes) -> None:
    node, one = await running(site)
    answer = await node.put(one, "items", 0, b'{"n":1}\n{"n":%s}\n' % number)
    assert answer.told == (422, "invalid_input", "body")
    assert await chunks_of(site, one) == 0


async def test_another_node_is_refused_and_noted(site: Site) -> None:
    _, one = await running(site)
    thief = await RemoteNode.online(site, name="thief")
    answer = await thief.put(one, "items", 0, LINES)
    assert answer.told[:2] == (409, "stale_execution")
    assert await chunks_of(site, one) == 0
    assert ("node", "execution.refused", execution_text(one.execution)) in await site.audited()


async def test_an_execution_that_is_over_is_stale(site: Site) -> None:
    node, one = await running(site)
    await node.finish(one)
    assert (await node.put(one, "items", 0, LINES)).told[:2] == (409, "stale_execution")
    assert await chunks_of(site, one) == 0
    assert not [noted for noted in await site.audited() if noted[1] == "execution.refused"], "late is usual"


async def test_people_send_no_chunks(site: Site) -> None:
    node, one = await running(site)
    for role in ("admin", "operator", "viewer", "enrol"):
        answer = await node.put(one, "items", 0, LINES, token=site.tokens[role])
        assert answer.told == (403, "not_allowed", "Authorization")


async def test_bad_names_are_refused_by_field(site: Site) -> None:
    node, one = await running(site)
    execution, task = execution_text(one.execution), task_text(one.task)
    for path, field in [
        (f"{execution}/items/0", "task"),
        (f"{execution}/items/0?task=task-1", "task"),
        (f"{execution}/items/0?task={task}&more=1", "more"),
        (f"exec-1/items/0?task={task}", "execution_id"),
        (f"{execution}/items/-1?task={task}", "number"),
        (f"{execution}/items/1.5?task={task}", "number"),
        (f"{execution}/items/99999999?task={task}", "number"),
        (f"{execution}/items/1000000?task={task}", "number"),
    ]:
        answer = await site.send("PUT", f"/api/v1/executions/{path}", data=LINES, token=node.secret)
        assert answer.told == (422, "invalid_input", field), path


@pytest.mark.parametrize("data", [b"not json\n", b"[1]\n", b'{"a":', b'{"a":"\xff"}\n'])
async def test_what_is_no_json_line_is_refused(site: Site, data: bytes) -> None:
    node, one = await running(site)
    answer = await node.put(one, "items", 0, data)
    assert answer.told[:2] == (422, "invalid_input")
    assert (answer.told[2] or "").startswith("body")
    assert await chunks_of(site, one) == 0


async def test_too_much_is_refused_however_it_is_packed(site: Site) -> None:
    node, one = await running(site)
    answer = await node.put(one, "items", 0, b" " * (CHUNK_BYTES + 1))
    assert answer.told == (413, "too_large", "body")
    # A little that unpacks to 320 MB without saying so, and one that says how long it is.
    pack = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = b"0" * (16 << 20)
    bomb = await asyncio.to_thread(lambda: b"".join(pack.compress(zeros) for _ in range(20)) + pack.flush())
    assert len(bomb) < 1 << 20
    sized = zstandard.ZstdCompressor().compress(b"0" * (CHUNK_BYTES + 1))
    for data in (bomb, sized):
        answer = await node.put(one, "items", 0, data, headers=ZSTD)
        assert answer.told == (413, "too_large", "body")
    assert await chunks_of(site, one) == 0


async def test_the_largest_chunk_is_taken(site: Site) -> None:
    node, one = await running(site)
    line = b'{"n":"' + b"x" * (CHUNK_BYTES - 9) + b'"}\n'
    assert len(line) == CHUNK_BYTES
    assert (await node.put(one, "items", 0, line)).status == 204
    assert await chunks_of(site, one) == 1


@pytest.mark.parametrize(
    ("headers", "data", "told"),
    [
        (ZSTD, b"not zstd", (400, "malformed", "body")),
        (ZSTD, zstandard.ZstdCompressor().compress(LINES)[:-4], (400, "malformed", "body")),
        ({"Content-Encoding": "gzip"}, LINES, (415, "unsupported_media_type", "Content-Encoding")),
    ],
)
async def test_what_cannot_be_unpacked_is_refused(
    site: Site, headers: dict[str, str], data: bytes, told: tuple[int, str, str]
) -> None:
    node, one = await running(site)
    assert (await node.put(one, "items", 0, data, headers=headers)).told == told
    assert await chunks_of(site, one) == 0


async def earlier(
    node: RemoteNode, one: AssignmentBody, of: str, number: int | str = 0, token: str | None = None
) -> Answer:
    path = f"/api/v1/executions/{execution_text(one.execution)}/earlier/{number}?task={task_text(one.task)}&of={of}"
    return await node.site.send("GET", path, token=token or node.secret)


async def test_what_an_earlier_task_noted_of_its_pages_is_read_by_the_node_that_runs_a_later_one(site: Site) -> None:
    node, first = await running(site)
    notes = b'{"_page":"http://a/","hash":"1"}\n'
    await node.put(first, "items", 0, LINES + notes)
    await node.put(first, "items", 1, notes)
    await site.submit()
    later = await node.take()
    assert (await earlier(node, later, task_text(first.task))).status == 404, "it has not completed"
    await node.finish(first, {"items": 4, "item_chunks": 2})
    for number in range(2):
        answer = await earlier(node, later, task_text(first.task), number)
        assert (answer.status, answer.content) == (200, b"2\n" + notes)
    assert (await earlier(node, later, task_text(first.task), 2)).content == b"2\n"


async def test_others_read_nothing_of_an_earlier_task(site: Site) -> None:
    node, first = await running(site)
    await node.finish(first, {"items": 0, "item_chunks": 0})
    await site.submit()
    later = await node.take()
    of = task_text(first.task)
    assert (await earlier(node, later, of)).status == 200
    stranger = await RemoteNode.online(site)
    assert (await earlier(node, later, of, token=stranger.secret)).told[:2] == (409, "stale_execution")
    assert (await earlier(node, first, of)).told[:2] == (409, "stale_execution"), "it is not live any more"
    assert (await earlier(node, later, task_text(12_345))).status == 404
    assert (await earlier(node, later, "task-x")).told == (422, "invalid_input", "of")
    assert (await earlier(node, later, of, "x")).told == (422, "invalid_input", "number")
    await site.submit(project_id="elsewhere")
    foreign = await node.take()
    assert (await earlier(node, foreign, of)).status == 404
