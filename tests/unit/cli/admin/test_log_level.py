"""`crawlfleet log-level`: what it calls, what it prints, and what it refuses before it calls."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cli.work.test_export import said
from tests.unit.client.test_client import Script

VIEW = {"master": "m0#1", "level": "debug", "own": "debug", "masters": None, "started_with": "info"}
CONFIG: dict[str, Any] = {
    "cluster": "eu",
    "version": 4,
    "values": {"slots": 3, "log_level_nodes": "info"},
    "effective": {},
    "changed_by": "ann",
    "changed_at": "2026-01-01T00:00:00Z",
}


def answers(*bodies: Any) -> Script:
    return Script(*((lambda body=body: web.json_response(body)) for body in bodies))


async def test_it_is_shown_with_where_it_comes_from() -> None:
    shown = (await said(answers(VIEW), "log-level", "show")).stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["SET", "FOR", "LEVEL"],
        ["this", "master", "debug"],
        ["all", "masters"],
        ["at", "its", "start", "info"],
        ["in", "effect", "debug"],
    ]
    assert json.loads((await said(answers(VIEW), "log-level", "show", "--json")).stdout) == VIEW


async def test_one_master_is_changed_by_its_own_route() -> None:
    script = answers(VIEW)
    assert (await said(script, "log-level", "set", "DEBUG", "--this-master")).stdout == "m0#1: debug\n"
    await said(script, "log-level", "reset", "--this-master")
    assert script.requests == ["PUT /api/v1/log-level"] * 2
    assert [json.loads(body) for body in script.bodies] == [{"level": "debug"}, {"level": None}]


async def test_all_masters_and_nodes_are_changed_by_the_configuration() -> None:
    script = answers(CONFIG)
    printed = (await said(script, "log-level", "set", "debug", "--nodes", "--cluster", "eu")).stdout
    assert printed == "nodes of cluster eu: debug, within seconds\n"
    assert script.requests == ["GET /api/v1/clusters/eu/config", "PUT /api/v1/clusters/eu/config"]
    assert json.loads(script.bodies[1])["values"] == {"slots": 3, "log_level_nodes": "debug"}
    script = answers(CONFIG)
    printed = (await said(script, "log-level", "set", "Error")).stdout
    assert printed == "all masters: error, within seconds\n"
    body = json.loads(script.bodies[1])
    assert body["values"] == {**CONFIG["values"], "log_level_masters": "error"}
    assert body["expected_version"] == 4
    script = answers(CONFIG)
    printed = (await said(script, "log-level", "reset", "--nodes")).stdout
    assert printed == "nodes of cluster default: the level they were started with, within seconds\n"
    assert json.loads(script.bodies[1])["values"] == {"slots": 3}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("set", "loud"), "'loud' is not one of debug, info, warning, error, critical"),
        (("set", "debug", "--this-master", "--nodes"), "exclude each other"),
        (("reset", "--cluster", "eu"), "--cluster goes with --nodes"),
    ],
)
async def test_mistakes_are_refused_before_a_call(arguments: tuple[str, ...], error: str) -> None:
    script = answers(VIEW)
    result = await said(script, "log-level", *arguments, code=2)
    assert script.requests == []
    assert error in result.stderr
