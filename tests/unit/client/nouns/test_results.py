"""The client reads a log as a person does: to its end, from its end, through a search that finds little."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.unit.client.test_client import Script, served

TASK = "task-0000000000000001"
PATH = f"GET /api/v1/tasks/{TASK}/log?"


def page(*messages: str, after: str, before: str | None = None, **fields: Any) -> web.Response:
    lines = [{"at": 1, "level": "info", "message": message} for message in messages]
    said = {"lines": lines, "next_after": after, "next_before": before, "execution_id": "exec-1", "is_live": False}
    return web.json_response(said | {"is_end": True} | fields)


async def test_a_page_without_lines_is_not_the_end_of_a_search() -> None:
    script = Script(page(after="50.0", is_end=False, is_live=True), page("found", after="51.0"))
    async with served(script) as client:
        assert [line.message async for line in client.log(TASK, q="found", level="info")] == ["found"]
    assert script.requests == [
        f"{PATH}level=info&q=found&limit=1000",
        f"{PATH}execution=exec-1&level=info&q=found&limit=1000&after=50.0",
    ]


async def test_the_tail_is_read_from_the_end_and_followed_from_there() -> None:
    script = Script(
        page("c", "d", after="9.0", before="8.1", is_end=False),
        page("b", after="8.1", before="7.0", is_end=False),
        page("new", after="9.1", is_live=True),
        page(after="9.1"),
    )
    async with served(script) as client:
        assert [line.message async for line in client.log(TASK, tail=3, follow=True)] == ["b", "c", "d", "new"]
    assert script.requests == [
        f"{PATH}limit=3&before=end",
        f"{PATH}execution=exec-1&limit=1&before=8.1",
        f"{PATH}execution=exec-1&limit=1000&after=9.0",
        f"{PATH}execution=exec-1&limit=1000&after=9.1",
    ]


async def test_a_tail_of_nothing_follows_what_comes() -> None:
    script = Script(page("old", after="9.0", before="8.1", is_end=False), page("new", after="9.1"))
    async with served(script) as client:
        assert [line.message async for line in client.log(TASK, tail=0)] == ["new"]
