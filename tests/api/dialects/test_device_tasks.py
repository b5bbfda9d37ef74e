"""The device dialect: tasks are submitted and listed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.dialects.device_kit import TASKS, Device
from tests.api.kit import Answer, Site

BODY = {"task_type": "echo", "params": {"n": 1}}


async def submit(site: Site, **fields: Any) -> Answer:
    return await site.post(TASKS, BODY | fields, role="operator")


async def test_a_task_is_stored_with_all_that_was_said(site: Site) -> None:
    parent = await site.submit()
    answer = await submit(
        site,
        task_name="first",
        priority=8,
        timeout=60,
        max_retry_count=1,
        scheduled_at="2099-01-01T00:00:00Z",
        project_id="shop",
        depends_on=[parent],
    )
    assert (answer.status, answer.json["status"]) == (201, "waiting")
    assert answer.json["created_at"].endswith("Z")
    shown = await site.task(answer.json["task_id"])
    assert {name: shown[name] for name in ("name", "priority", "timeout_s", "project_id", "depends_on")} == {
        "name": "first",
        "priority": 8,
        "timeout_s": 60,
        "project_id": "shop",
        "depends_on": [parent],
    }
    assert (shown["max_retries"], shown["run_at"], shown["parameters"]) == (1, "2099-01-01T00:00:00.000Z", {"n": 1})


@pytest.mark.parametrize("name", ["parameters", "task_data"])
async def test_parameters_have_other_names(site: Site, name: str) -> None:
    answer = await site.post(TASKS, {"task_type": "echo", name: {"n": 2}, "name": "other"}, role="operator")
    shown = await site.task(answer.json["task_id"])
    assert (shown["parameters"], shown["name"]) == ({"n": 2}, "other")


async def test_null_is_left_out(site: Site) -> None:
    nothing = dict.fromkeys(("task_name", "device_id", "timeout", "max_retry_count", "scheduled_at", "depends_on"))
    assert (await submit(site, **nothing)).status == 201


async def test_the_same_key_again_is_the_same_task(site: Site) -> None:
    headers = {"Idempotency-Key": "k"}
    first, again = [await site.post(TASKS, BODY, role="operator", headers=headers) for _ in range(2)]
    assert first.json == again.json
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_a_task_for_a_device_runs_on_that_device_alone(site: Site) -> None:
    one, other = await Device.register(site), await Device.register(site, "dev-2")
    task_id = (await submit(site, device_id="dev-2")).json["task_id"]
    assert await one.pull(max_tasks=5) == []
    why = (await site.get(f"/api/v1/tasks/{task_id}/why")).json["sentence"]
    assert "not the node it is for" in why
    assert [task["task_id"] for task in await other.pull()] == [task_id]
    assert (await site.task(task_id))["node_id"] == other.node


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"priority": 11}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"task_type": "unheard"}, "task_type"),
        ({"task_type": None}, "task_type"),
        ({"params": None}, "params"),
        ({"params": 1}, "params"),
        ({"params": {"a": "b\0"}}, "params.a"),
        ({"timeout": 0}, "timeout"),
        ({"max_retry_count": 101}, "max_retry_count"),
        ({"max_retry_count": "1"}, "max_retry_count"),
        ({"scheduled_at": "soon"}, "scheduled_at"),
        ({"depends_on": ["task-1"]}, "depends_on[0]"),
        ({"device_id": "nobody"}, "device_id"),
        ({"device_id": 7}, "device_id"),
        ({"task_name": 7}, "task_name"),
        ({"task_data": {}}, "task_data"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_task_is_refused_with_its_field(site: Site, fields: Any, field: str) -> None:
    answer = await submit(site, **fields)
    assert answer.status == 422, answer.content
    assert answer.json["field"] == field
    assert not any((await site.store.task_totals()).values())


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 400), (b"{", 400), (b"[]", 422), (b"\xff", 400), (b"[" * 2000, 422), (b"null", 422)]
)
async def test_a_body_that_is_no_object_is_refused(site: Site, data: bytes, status: int) -> None:
    answer = await site.send("POST", TASKS, data=data, role="operator")
    assert (answer.status, answer.told[2]) == (status, "body")


async def test_only_operators_submit(site: Site) -> None:
    device = await Device.register(site)
    assert (await device.send("POST", TASKS, BODY)).status == 403
    assert (await site.post(TASKS, BODY, role="viewer")).status == 403


async def test_tasks_are_listed_newest_first_with_their_device(site: Site) -> None:
    device = await Device.register(site)
    ids = [(await submit(site, task_name=f"n{number}")).json["task_id"] for number in range(3)]
    (task,) = await device.pull()
    await device.report(task, "running")
    page = (await site.get(f"{TASKS}?limit=2", role="viewer")).json
    assert [shown["task_id"] for shown in page["tasks"]] == [ids[2], ids[1]]
    assert page["total"] == 3
    rest = (await site.get(f"{TASKS}?limit=2&cursor={page['next_cursor']}", role="viewer")).json
    (oldest,) = rest["tasks"]
    assert (oldest["task_id"], oldest["status"], oldest["device_id"]) == (ids[0], "running", "dev-1")
    assert (oldest["execution_id"], rest["next_cursor"]) == (task["execution_id"], None)


async def test_tasks_are_filtered(site: Site) -> None:
    device = await Device.register(site)
    ids = [(await submit(site)).json["task_id"] for _ in range(2)]
    (task,) = await device.pull()
    await device.report(task, "running")
    for query, expected in (
        ("status=running", [ids[0]]),
        ("status=pending,completed", [ids[1]]),
        ("device_id=dev-1", [ids[0]]),
        ("task_type=web_crawl", []),
    ):
        page = (await site.get(f"{TASKS}?{query}", role="viewer")).json
        assert ([shown["task_id"] for shown in page["tasks"]], page["total"]) == (expected, None), query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=processing", "status[0]"),
        ("limit=0", "limit"),
        ("cursor=x", "cursor"),
        ("device_id=nobody", "device_id"),
        ("colour=red", "colour"),
    ],
)
async def test_a_bad_query_is_refused_with_its_field(site: Site, query: str, field: str) -> None:
    assert (await site.get(f"{TASKS}?{query}", role="viewer")).told == (422, "invalid_input", field)
