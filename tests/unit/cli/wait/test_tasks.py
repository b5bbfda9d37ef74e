"""What the command line says of tasks while they run and when they have ended."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from crawlfleet.cli.wait.rate_window import RateWindow
from crawlfleet.cli.wait.tasks import crawl_note, task_done
from crawlfleet.cli.work.task_summary import end_line, format_counts, format_span, summary_fields
from crawlfleet.client._generated.models import TaskView
from tests.unit.cli.work.test_export import crawled, said
from tests.unit.client.test_client import Script, accepted

TASK = "task-0000000000000001"
LATER = "2026-01-01T00:01:15Z"
METRICS = {
    "pages_crawled": 1_070,
    "pages_failed": 3,
    "pages_skipped": 2,
    "items": 180,
    "errors": {"http": 3},
    "failures": {"status": 2, "timeout": 1},
    "stopped_by": "max_pages",
}


def view(**more: Any) -> TaskView:
    metrics = more.pop("metrics", METRICS)
    result = {"success": True, "data": {"pages": [1]}, "metrics": metrics, "timestamp": LATER, "notes": ["a note"]}
    return msgspec.convert(crawled(**{"result": result, "completed_at": LATER, **more}), TaskView)


def answer(task: TaskView) -> web.Response:
    return web.Response(body=msgspec.json.encode(task), content_type="application/json")


def test_the_bar_of_a_crawl_counts_its_pages() -> None:
    figures = {"pages": 20, "items": 92, "queued": 43, "failed": 2, "skipped": 1, "max_pages": 100}
    assert task_done(figures) == (23, 66)
    assert task_done(figures | {"max_pages": 30}) == (23, 33)
    assert task_done(figures | {"max_pages": 20}) == (23, 23)
    assert task_done({"done": 3, "total": 9}) == (3, 9)
    assert task_done({"keywords": 4}) is None
    assert crawl_note(figures, 9.5, 43) == "92 items, 2 failed, 9.5/s, 4.5 s left"
    assert crawl_note(figures, None, 43) == "92 items, 2 failed"


def test_a_rate_is_that_of_late_and_stands_between_two_figures() -> None:
    now = [0.0]
    window = RateWindow(clock=lambda: now[0])
    assert window.add(0) is None
    now[0] = 2.0
    assert window.add(20) == 10.0
    now[0] = 3.0
    assert window.add(20) == 10.0
    now[0] = 102.0
    assert window.add(120) == 1.0


def test_how_one_ended_is_told_in_a_line_with_what_was_counted() -> None:
    assert (
        format_counts(view())
        == "1,070 pages, 3 failed (status 2, timeout 1), 2 skipped, 180 items, stopped by max_pages"
    )
    assert end_line(view()) == f"{TASK}  completed in 1 min 15 s: {format_counts(view())}"
    assert end_line(view(metrics={"slept_s": 2.5, "deep": {}})) == f"{TASK}  completed in 1 min 15 s: slept_s 2.5"
    failed = view(
        status="failed", error={"class": "http", "message": "answers 500", "is_permanent": False}, result=None
    )
    assert end_line(failed) == f"{TASK}  failed: answers 500"
    assert [format_span(seconds) for seconds in (0.04, 9.96, 59.4, 60, 3_700)] == [
        "0.0 s",
        "10.0 s",
        "59 s",
        "1 min 0 s",
        "1 h 1 min",
    ]


def test_a_summary_has_no_data_and_says_where_it_is() -> None:
    fields = summary_fields(view())
    assert fields["counts"] == format_counts(view())
    assert fields["result"] == f"crawlfleet task show {TASK} --result prints it"
    assert "preemptible" not in fields
    assert summary_fields(view(preemptible=True))["preemptible"] is True


async def test_show_prints_the_result_on_request() -> None:
    script = Script(lambda: answer(view()), lambda: web.json_response({"executions": []}))
    assert "pages" in (told := (await said(script, "task", "show", TASK)).stdout)
    assert '{"pages": [1]}' not in told
    assert json.loads((await said(Script(lambda: answer(view())), "task", "show", TASK, "--result")).stdout) == {
        "pages": [1]
    }
    none = Script(lambda: answer(view(status="processing", result=None)))
    told = (await said(none, "task", "show", TASK, "--result", code=4)).stderr
    assert f"error: {TASK} is processing and has no result" in told
    assert f"hint: crawlfleet task why {TASK}" in told


@pytest.mark.parametrize(("option", "printed"), [("--wait", f"{TASK}  completed in"), ("--result", '{"pages": [1]}')])
async def test_a_wait_ends_in_a_summary_or_the_result(option: str, printed: str) -> None:
    script = Script(accepted, lambda: answer(view()))
    told = await said(script, "task", "submit", "web_crawl", option)
    assert told.stdout.startswith(printed)
    assert len(told.stdout.splitlines()) == 1
    assert "note: a note" in told.stderr


async def test_a_watched_crawl_that_a_host_slows_down_says_so_once() -> None:
    figures = {
        "pages": 20,
        "items": 92,
        "queued": 43,
        "failed": 2,
        "limited_by": "shop.example",
        "limit": "10/s, 8 at once",
    }
    runs = view(status="processing", result=None, completed_at=None, progress=figures)
    script = Script(lambda: answer(runs), lambda: answer(runs), lambda: answer(view()))
    told = await said(script, "task", "watch", TASK)
    assert told.stderr.count("host shop.example sets the pace: its budget is 10/s, 8 at once") == 1
    assert "crawlfleet host set shop.example --rate NUMBER changes it" in told.stderr
    assert "3 failed (status 2, timeout 1)" in told.stdout
