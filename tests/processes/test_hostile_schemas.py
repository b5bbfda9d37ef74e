"""A node with hostile, huge or old schemas, against a running installation: others submit as before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import Fleet, fleet
from tests.unit.control.tasks.test_schema_cost import unfolding

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SUBMIT_S = 2.0
REFUSING = {"type": "object", "required": ["nothing has this"]}


async def register(running: Fleet, name: str, types: dict[str, Any], token: str | None = None) -> tuple[int, Any]:
    token = token or (await running.client.create_token("enrol", uses=1)).token
    body = {"name": name, "slots": 1, "join_key": name, "task_types": types}
    answer = await running.call("POST", "/api/v1/nodes:register", json=body, token=token)
    return answer.status, answer.json


async def schemas(running: Fleet) -> dict[str, Any]:
    listed = (await running.call("GET", "/api/v1/task-types")).json["task_types"]
    return {one["name"]: (one["version"], one["schema"]) for one in listed}


async def submit_s(running: Fleet, task: dict[str, Any]) -> float:
    began = time.monotonic()
    answer = await running.call("POST", "/api/v1/tasks", json=task)
    assert answer.status in (200, 201, 202), answer.body
    return time.monotonic() - began


async def test_a_node_changes_nothing_of_what_others_submit(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        status, owner = await register(running, "owner", {"mine": {"version": 2, "type": "object"}})
        assert (status, owner["ignored_types"]) == (201, {})
        before = await schemas(running)

        for hostile in (unfolding(30), {"items": {"enum": [*range(9_000)]}}, {"$ref": "#"}, {"title": "x" * 70_000}):
            status, problem = await register(running, "hostile", {"theirs": hostile})
            assert (status, problem["code"], problem["field"]) == (422, "invalid_input", "task_types.theirs")
        everything = dict.fromkeys(before, REFUSING) | {"echo": unfolding(30)}
        status, told = await register(running, "hostile", everything)
        assert status == 201, "an old worker says old things of built-in types, and has to be let in"
        assert set(told["ignored_types"]) == set(before)
        status, again = await register(running, "hostile", everything, told["secret"])
        assert (status, set(again["ignored_types"])) == (200, set(before))
        assert await schemas(running) == before

        for task_type in ("echo", "mine"):
            for _ in range(5):
                assert await submit_s(running, {"task_type": task_type, "parameters": {"n": 1}}) < SUBMIT_S

        newer = {"version": 3, "required": ["url"]}
        status, _ = await register(running, "owner", {"mine": newer}, owner["secret"])
        assert status == 200
        status, old = await register(running, "owner", {"mine": {"version": 2}}, owner["secret"])
        assert list(old["ignored_types"]) == ["mine"]
        assert (await schemas(running))["mine"] == (2, newer)
