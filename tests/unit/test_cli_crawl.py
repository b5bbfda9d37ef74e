"""`crawl` at the command line, against a server that behaves as told: what it assumes, and how it ended."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.unit.test_cli_exporting import said
from tests.unit.test_client import Script

GROUP = "group-0000000000000001"
AT = "2026-01-01T00:00:00Z"


def group(**crawl: Any) -> web.Response:
    progress = {"total": 4, "open": 0, "completed": 4, "failed": 0, "timeout": 0, "cancelled": 0, "percent": 100.0}
    figures = {
        "members": 4, "depth": 5, "max_pages": 100, "pages": 100, "failed": 0, "skipped": 0, "moved": 0, "found": 250,
        "queued": 150, "leased": 0, "items": 90, "data_bytes": 5, "percent": 100.0, "rate_per_s": None,
        "lately_per_s": None, "left_s": None, "started_at": AT, "finished_at": AT, "stopped_by": None,
    }  # fmt: skip
    body: dict[str, Any] = {
        "id": GROUP, "name": None, "project_id": None, "kind": "crawl", "created_at": AT, "is_closed": True,
        "is_finished": True, "is_complete": True, "finished_at": AT, "shard": None, "failures": [],
        "progress": {**progress, "rate_per_s": None, "left_s": None}, "crawl": {**figures, **crawl},
    }  # fmt: skip
    return web.json_response(body, status=201)


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ([], "without --depth only the given URLs are read"),
        (["--depth", "0"], "without --depth only the given URLs are read"),
        (["--depth", "5"], "no --max-pages was given, 100 are read at most"),
        (["--param", "sitemaps=true"], "no --max-pages was given, 100 are read at most"),
        (["--depth", "5", "--max-pages", "100"], None),
    ],
)
async def test_what_nobody_said_is_told(options: list[str], note: str | None) -> None:
    told = await said(Script(group), "crawl", "http://shop.test/", *options)
    assert told.stdout == f"{GROUP}\n"
    assert (note or "") in told.stderr
    assert note is not None or told.stderr == ""


async def test_an_end_before_all_was_visited_says_by_what() -> None:
    options = ("crawl", "http://shop.test/", "--depth", "5", "--max-pages", "100", "--wait")
    told = await said(Script(lambda: group(stopped_by="max_pages")), *options)
    assert "100 pages, 90 items, 0 failed; stopped by max_pages, 150 URLs were not visited" in told.stdout
    assert "stopped" not in (await said(Script(group), *options)).stdout
