"""`crawl` at the command line, against a server that behaves as told: what it assumes, and how it ended."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from crawlfleet.cli.command import Call
from crawlfleet.cli.output import Output
from crawlfleet.cli.wait.tasks import note_on_interrupt
from crawlfleet.client._generated.models import CrawlView
from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

GROUP = "group-0000000000000001"
AT = "2026-01-01T00:00:00Z"


def group(**crawl: Any) -> web.Response:
    progress = {"total": 4, "open": 0, "completed": 4, "failed": 0, "timeout": 0, "cancelled": 0, "percent": 100.0}
    # Whatever figures there are besides: those of which nothing is known are null.
    figures: dict[str, Any] = dict.fromkeys(
        (field.name for field in msgspec.structs.fields(CrawlView)), None
    ) | dict.fromkeys(("failed", "skipped", "moved", "leased", "data_bytes"), 0)
    figures |= {"members": 4, "depth": 5, "max_pages": 100, "pages": 100, "found": 250, "queued": 150, "items": 90}
    figures |= {"percent": 100.0, **crawl}
    body: dict[str, Any] = {
        "id": GROUP,
        "name": None,
        "project_id": None,
        "kind": "crawl",
        "created_at": AT,
        "is_closed": True,
        "is_finished": True,
        "is_complete": True,
        "finished_at": AT,
        "shard": None,
        "failures": [],
        "progress": {**progress, "rate_per_s": None, "left_s": None},
        "crawl": figures,
    }
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


def whole_result(pages: int, failed: int, notes: list[str], errors: dict[str, int]) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "pages_crawled": pages,
        "processing_time": 1.0,
        "data_size": 0,
        "pages_failed": failed,
        "pages_skipped": 0,
        "pages_moved": 0,
        "items": 0,
        "max_pages": 100,
        "stopped_by": None,
        "changes": None,
        "errors": errors,
        "failures": {},
        "links_left_out": {},
        "fields": {},
    }
    return {
        "success": pages > 0,
        "data": {"items": []},
        "items": 0,
        "data_truncated": False,
        "metrics": metrics,
        "timestamp": AT,
        "notes": notes,
    }


def ended(*, notes: list[str] | None = None, errors: dict[str, int] | None = None, **crawl: Any) -> Script:
    """A crawl that is over, and the result of the whole."""
    pages, failed = crawl.get("pages", 100), crawl.get("failed", 0)
    result = whole_result(pages, failed, notes or [], errors or {})
    whole = partial(group, **crawl)
    return Script(whole, whole, lambda: web.json_response(result))


WAITED = ("crawl", "http://shop.test/", "--depth", "5", "--max-pages", "100", "--wait")


async def test_an_end_before_all_was_visited_says_by_what() -> None:
    told = await said(ended(stopped_by="max_pages"), *WAITED)
    assert "100 pages, 90 items, 0 failed; stopped by max_pages, 150 URLs were not visited" in told.stdout
    assert "stopped" not in (await said(ended(), *WAITED)).stdout


async def test_what_its_members_noted_is_told_beside_it() -> None:
    told = await said(ended(notes=["never matched on 9 pages: price"]), *WAITED)
    assert "note: never matched on 9 pages: price" in told.stderr
    told = await said(ended(notes=["x"]), *WAITED, "--json")
    assert "note:" not in told.stderr
    assert json.loads(told.stdout)["id"] == GROUP


async def test_the_end_says_why_pages_failed() -> None:
    told = await said(ended(failed=3, errors={"http": 2, "timeout": 1}), *WAITED)
    assert "100 pages, 90 items, 3 failed" in told.stdout
    assert "note: pages that failed: http 2, timeout 1" in told.stderr


async def test_a_recrawl_tells_what_has_changed() -> None:
    changes = {"new": 4, "changed": 2, "unchanged": 90, "gone": 1}
    assert "; 4 new, 2 changed, 1 gone" in (await said(ended(changes=changes), *WAITED)).stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_a_crawl_that_read_no_page_is_no_success(options: tuple[str, ...]) -> None:
    script = ended(pages=0, items=0, failed=2, errors={"network": 1, "http": 1})
    told = await said(script, *WAITED, *options, code=4)
    assert "no page was read: 2 failed (network 1, http 1), 0 skipped" in told.stderr
    assert f"crawlfleet task list --group {GROUP}" in told.stderr


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["task-1"], "task-1 goes on: crawlfleet task watch task-1 waits again, crawlfleet task cancel task-1 stops"),
        (["task-1", "task-2"], "2 tasks go on: crawlfleet task watch TASK waits again, "),
    ],
)
def test_who_stops_waiting_is_told_that_it_goes_on(
    ids: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = SimpleNamespace(out=Output(is_json=False))
    with pytest.raises(KeyboardInterrupt), note_on_interrupt(cast(Call, call), "task", ids):
        raise KeyboardInterrupt
    assert said in capsys.readouterr().err


WHY = {
    "id": GROUP,
    "sentence": "waits for host shop.test: in back-off until later, in 12 s",
    "cause": "host_backoff",
    "open": 4,
    "waits_for": [{"host": "shop.test", "cause": "host_backoff", "until": "later"}],
}


class Still(Script):
    """A crawl that does not get on, for so many questions why; then it is over."""

    def __init__(self, why: dict[str, Any], times: int = 2) -> None:
        super().__init__()
        self._why = why
        self._left = times

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/why"):
            self._left -= 1
            return web.json_response(self._why)
        if self._left <= 0 and not request.path.endswith(GROUP):
            return web.json_response(whole_result(100, 0, [], {}))
        body = msgspec.json.decode(group().text or "")
        return web.json_response({**body, "is_finished": self._left <= 0}, status=201)


@pytest.mark.parametrize(
    ("why", "told"), [(WHY, f"stands still: {WHY['sentence']}\n"), (WHY | {"cause": "processing"}, "")]
)
async def test_one_that_stands_still_says_why_once(
    why: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlfleet.client.nouns.groups._STILL_S", 0.1)
    options = ("crawl", "http://shop.test/", "--depth", "5", "--max-pages", "100", "--wait")
    ended = await said(Still(why), *options)
    assert ended.stderr.replace(f"{GROUP}\n", "") == told
    assert "100 pages" in ended.stdout


async def test_why_a_group_stands_still_can_be_asked() -> None:
    ended = await said(Script(lambda: web.json_response(WHY)), "group", "why", GROUP)
    assert ended.stdout == f"{WHY['sentence']}\n"
