"""Commands of the command line against a server that behaves as told: what they ask for and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web
from typer.main import get_command
from typer.testing import CliRunner

from crawlfleet.cli.app import app
from crawlfleet.cli.command import fold_example
from crawlfleet.cli.usage_messages import usage_message
from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

TASK, OTHER = "task-0000000000000001", "task-0000000000000002"
AT = "2026-01-01T00:00:00.123Z"
SECOND = "2026-01-01T00:00:00Z"
runner = CliRunner()


def answers(body: Any, status: int = 200) -> Any:
    return lambda: web.json_response(body, status=status)


def event(number: int, kind: str = "task.completed") -> dict[str, Any]:
    return {"number": number, "at": AT, "kind": kind, "data": {"task": TASK, "reason": None}}


def bulk(changed: int, refused: int = 0) -> dict[str, Any]:
    refusals = [{"id": TASK, "code": "not_ready", "detail": "is processing"}] * min(refused, 1)
    return {"changed": changed, "by_status": {}, "refused": refused, "refusals": refusals, "next_cursor": None}


async def test_events_are_listed_from_so_many_before_the_end() -> None:
    script = Script(
        answers({"events": [], "next_after": 0, "last": 90}),
        answers({"events": [event(89), event(90)], "next_after": 90, "last": 90}),
    )
    told = (await said(script, "event", "list", "--limit", "2")).stdout.splitlines()
    assert "after=88" in script.requests[1]
    assert told[0].split() == ["NUMBER", "AT", "KIND", "ABOUT"]
    assert told[2].split() == ["90", SECOND, "task.completed", "task", TASK]


async def test_a_filtered_list_of_events_goes_on_to_the_end_of_the_log() -> None:
    script = Script(
        answers({"events": [event(3)], "next_after": 50, "last": 90}),
        answers({"events": [event(77)], "next_after": 90, "last": 90}),
    )
    told = await said(script, "event", "list", "--kind", "task.", "--json")
    assert [one["number"] for one in json.loads(told.stdout)["events"]] == [3, 77]
    assert all("kind=task." in request for request in script.requests)


async def test_the_audit_log_is_listed() -> None:
    entry = {
        "id": 1,
        "at": AT,
        "role": "admin",
        "name": "ann",
        "token": 1,
        "node_id": None,
        "address": "127.0.0.1",
        "action": "node.drain",
        "target": "node-1",
        "details": {"within_s": 5},
    }
    script = Script(answers({"entries": [entry], "next_before": None}))
    told = (await said(script, "audit", "list", "--limit", "7")).stdout
    assert "limit=7" in script.requests[0]
    assert told.splitlines()[1].split(maxsplit=6) == [
        SECOND,
        "ann",
        "admin",
        "127.0.0.1",
        "node.drain",
        "node-1",
        '{"within_s": 5}',
    ]


async def test_the_history_of_a_configuration_says_what_changed() -> None:
    def version(number: int, **values: Any) -> dict[str, Any]:
        return {"cluster": "eu", "version": number, "values": values, "changed_by": "ann", "changed_at": AT}

    versions = [version(3, max_retries=5), version(2, max_retries=5, strategy="random"), version(1, max_retries=4)]
    told = (await said(Script(answers({"versions": versions})), "config", "history", "--cluster", "eu")).stdout
    assert [line.split("ann", 1)[1].strip() for line in told.splitlines()[1:]] == [
        "strategy unset",
        "max_retries=5, strategy=random",
        "max_retries=4",
    ]


SCHEMA = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "description": "an address"},
        "depth": {"type": "integer", "minimum": 0, "maximum": 9},
        "order": {"enum": ["a", "b"]},
        "many": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/list"}]},
        "spread": {"type": "boolean", "x-internal": True},
    },
    "$defs": {"list": {"type": "array", "maxItems": 3}},
}


async def test_a_type_is_shown_with_its_parameters() -> None:
    types = answers({"task_types": [{"name": "visit", "version": 1, "schema": SCHEMA, "changed_at": AT, "nodes": 2}]})
    told = [line.split(maxsplit=1) for line in (await said(Script(types), "type", "show", "visit")).stdout.splitlines()]
    assert told[1:] == [
        ["url", "yes     text, an address"],
        ["depth", "whole number, from 0, to 9"],
        ["order", "one of a, b"],
        ["many", "true or false or list, at most 3 entries"],
    ]
    wrong = (await said(Script(types), "type", "show", "vist", code=3)).stderr
    assert "no task type 'vist'; did you mean visit?" in wrong
    assert "visit  1        2      url" in (await said(Script(types), "type", "list")).stdout


@pytest.mark.parametrize(
    ("arguments", "request_line", "told"),
    [
        (["task", "assign", TASK, OTHER, "worker-1"], "POST /api/v1/tasks:assign", "2 tasks assigned to worker-1"),
        (["task", "assign", "worker-1", "--project", "a"], "POST /api/v1/tasks:assign", "2 tasks assigned to worker-1"),
        (["task", "prioritize", TASK, OTHER, "10"], "POST /api/v1/tasks:prioritize", "2 tasks have priority 10"),
        (["task", "prioritize", "3", "-q", "x"], "POST /api/v1/tasks:prioritize", "2 tasks have priority 3"),
        (["dead-letter", "drop", TASK, OTHER], "POST /api/v1/dead-letters:drop", "2 tasks dropped"),
        (["dead-letter", "drop", "--cause", "x"], "POST /api/v1/dead-letters:drop", "2 tasks dropped"),
    ],
)
async def test_many_are_changed_in_one_call(arguments: list[str], request_line: str, told: str) -> None:
    script = Script(answers(bulk(2)))
    assert (await said(script, *arguments)).stdout == f"{told}\n"
    assert script.requests == [request_line]


async def test_the_name_of_a_class_is_the_number_that_the_installation_gives_it() -> None:
    config = {"cluster": "default", "version": 1, "values": {}, "changed_by": None, "changed_at": None}
    script = Script(answers(config | {"effective": {"priority_high": 8}}), answers(bulk(2)))
    told = (await said(script, "task", "prioritize", TASK, OTHER, "high")).stdout
    assert told == "2 tasks have priority 8\n"
    assert script.requests == ["GET /api/v1/clusters/default/config", "POST /api/v1/tasks:prioritize"]


async def test_what_could_not_be_changed_is_named_with_what_to_do() -> None:
    told = (await said(Script(answers(bulk(0, 2))), "task", "assign", TASK, OTHER, "worker-1", code=1)).stderr
    assert f"{TASK}: is processing" in told
    assert f"hint: crawlfleet task why {TASK}" in told


async def test_a_change_of_many_names_tasks_or_a_filter() -> None:
    told = (await said(Script(answers(bulk(0))), "task", "assign", "worker-1", code=2)).stderr
    assert "name either tasks or a filter" in told


async def test_several_queues_are_paused_in_one_call() -> None:
    states = [{"name": name, "is_paused": True, "has_changed": name == "a"} for name in ("a", "b")]
    script = Script(answers({"queues": states}))
    assert (await said(script, "queue", "pause", "a", "b")).stdout == "a: paused\nb: already paused\n"
    assert script.requests == ["POST /api/v1/queues:pause"]


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("http://shop.example:8080/a?b", "shop.example%3A8080"),
        ("https://u:p@shop.example", "shop.example"),
        ("shop.example", "shop.example"),
    ],
)
async def test_a_host_may_be_given_by_an_address(given: str, host: str) -> None:
    script = Script(answers({"name": "shop.example", "has_changed": True}))
    await said(script, "host", "forgive", given)
    assert script.requests == [f"POST /api/v1/hosts/{host}:forgive"]


async def test_a_file_whose_name_says_no_known_format_is_refused(tmp_path: Any) -> None:
    told = (await said(Script(), "task", "export", TASK, "-o", str(tmp_path / "out.xyz"), code=2)).stderr
    assert "out.xyz ends like none of .jsonl, .csv, .parquet, .warc" in told
    assert "hint: --format says what to write" in told


def test_the_settings_of_a_worker_are_shown_without_a_master(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CRAWLFLEET_MASTERS", raising=False)
    told = runner.invoke(app, ["config", "show", "--mode", "worker", "--json"])
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["settings"]["masters"] == {
        "value": None,
        "source": "needed to start",
        "from": "needed to start",
    }
    assert runner.invoke(app, ["worker"]).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tsk"], "error: there is no command 'tsk'; did you mean 'task'?\nhint: crawlfleet --help"),
        (["task", "lst"], "error: there is no command 'lst'; did you mean 'list'?\nhint: crawlfleet task --help"),
        (["task", "list", "--stats", "x"], "error: there is no option --stats; did you mean --status?"),
        (["task", "list", "--limit", "x"], "error: --limit: must be a whole number\n"),
        (["task", "list", "--limit", "0"], "error: --limit: must be at least 1\n"),
        (["task", "submit"], "error: the argument task_type is missing\nhint: crawlfleet task submit --help"),
        (["task", "list", "more"], "error: more is one argument too many\n"),
        (["--verison"], "error: there is no option --verison; did you mean --version?"),
    ],
)
def test_what_was_mistyped_is_told_with_what_was_meant(arguments: list[str], told: str) -> None:
    result = runner.invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr.replace("root --help", "crawlfleet --help").replace("hint: root ", "hint: crawlfleet ")


def test_no_words_of_a_library_are_left() -> None:
    assert usage_message(
        "Invalid value for '--rate': Input should be a valid number, unable to parse string as a number"
    ) == ("--rate: must be a number")


def test_every_group_has_examples_that_fit_a_terminal() -> None:
    for name, group in get_command(app).commands.items():  # type: ignore[attr-defined]
        if hasattr(group, "commands"):
            told = runner.invoke(app, [name, "--help"], env={"COLUMNS": "80"}).output
            assert f"crawlfleet {name} " in told.partition("Examples:")[2], name


def test_long_examples_are_folded_as_a_shell_joins_them() -> None:
    folded = fold_example("crawlfleet task submit my_type --params @params.json --project shop --field timeout_s=60")
    assert (
        folded == "crawlfleet task submit my_type --params @params.json --project shop \\\n      --field timeout_s=60"
    )
    assert fold_example("crawlfleet task list") == "crawlfleet task list"


async def test_what_is_not_there_is_told_with_where_to_look() -> None:
    gone = {"status": 404, "code": "not_found", "detail": f"no task {TASK}"}
    told = (await said(Script(answers(gone, 404)), "task", "show", TASK, code=3)).stderr
    assert told == f"error: no task {TASK}\nhint: crawlfleet task list shows those there are\n"
