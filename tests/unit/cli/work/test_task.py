"""`task` at the command line, against a server that behaves as told: what it says of how a task ended."""

from __future__ import annotations

import json

import msgspec
import pytest
from aiohttp import web

from crawlfleet.cli.work import task as task_command
from crawlfleet.client._generated.models import TaskView
from tests.unit.cli.work.test_export import NOTE, crawled, said
from tests.unit.client.test_client import Script, accepted, error

TASK = "task-0000000000000001"


@pytest.mark.parametrize(
    ("code", "hint"),
    [("group_incomplete", "--partial gives what there is"), ("some_other", "do better")],
)
async def test_hints_speak_of_commands_where_a_master_speaks_of_http(code: str, hint: str) -> None:
    told = await said(Script(error(409, code)), "group", "export", "group-0000000000000001", code=1)
    assert f"hint: {hint}" in told.stderr


async def test_an_id_of_something_else_is_told_by_what_it_is_of() -> None:
    wrong = {"status": 404, "code": "not_found", "detail": "no task 'group-0000000000000001'"}
    script = Script(lambda: web.json_response(wrong, status=404))
    told = await said(script, "task", "show", "group-0000000000000001", code=3)
    assert "hint: it is the id of a group: crawlfleet group --help" in told.stderr


async def test_notes_on_pages_are_no_items_unless_they_are_asked_for() -> None:
    note, item = {"_page": "http://a.test/", "status": 200}, {"title": "A", "_page": "not the first"}
    page = {"items": [note, item, note, 5, item], "next_cursor": None, "total": 5, "is_final": True}
    script = Script(lambda: web.json_response({**page, "execution_id": None}))
    lines = (await said(script, "task", "results", TASK, "--json")).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [item, 5, item]
    lines = (await said(script, "task", "results", TASK, "--json", "--pages", "--limit", "1")).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [note]
    assert "http://a.test/" not in (await said(script, "task", "results", TASK)).stdout


async def test_show_tells_the_notes_of_a_result() -> None:
    shown = Script(lambda: web.json_response(crawled()), lambda: web.json_response({"executions": []}))
    assert f" {NOTE}" in (await said(shown, "task", "show", TASK)).stdout


async def test_a_wait_gives_the_result_to_programs_and_its_notes_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    view = msgspec.convert(crawled(), TaskView)
    monkeypatch.setattr(task_command, "wait_for_tasks", lambda *_: [view])
    told = await said(Script(accepted), "task", "submit", "web_crawl", "--result")
    assert told.stdout == '{"pages": []}\n'
    assert f"note: {NOTE}" in told.stderr
    told = await said(Script(accepted), "task", "submit", "web_crawl", "--wait", "--json")
    assert json.loads(told.stdout)["result"]["notes"] == [NOTE]
    assert "note:" not in told.stderr
