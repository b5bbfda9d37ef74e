"""Projects over HTTP: weights, quotas, what is used and what is left; and queues with an order."""

from typing import Any

import pytest

from crawlfleet.model.execution import End
from crawlfleet.wire.sync import OutcomeBody, SliceWantBody, UsedBody
from tests.api.kit import Site
from tests.api.remote_node import RemoteNode

PROJECTS = "/api/v1/projects"


async def test_a_project_is_described_field_by_field(site: Site) -> None:
    path = f"{PROJECTS}/shop"
    made = await site.send("PUT", path, {"weight": 2.5, "max_running": 10, "cpu": 4}, role="operator")
    assert (made.status, made.json["weight"], made.json["version"], made.json["on_full"]) == (200, 2.5, 1, "wait")
    assert made.json["quotas"]["running"] == {"limit": 10, "used": 0, "left": 10}
    assert made.json["quotas"]["waiting"] == {"limit": None, "used": 0, "left": None}
    changed = (await site.send("PUT", path, {"cpu": None, "on_full": "refuse", "max_waiting": 0})).json
    assert (changed["weight"], changed["version"], changed["on_full"]) == (2.5, 2, "refuse")
    limits = {name: quota["limit"] for name, quota in changed["quotas"].items()}
    nothing = dict.fromkeys(("cpu", "memory_mb", "pages_per_day", "bytes_per_day"))
    assert limits == {"waiting": 0, "running": 10, **nothing}
    assert (await site.get(path, role="viewer")).json == changed
    assert (await site.send("PUT", path, {"weight": None})).json["weight"] == 1
    assert ("operator", "project.put", "shop") in await site.audited()
    assert (await site.send("PUT", path, {}, role="viewer")).told[0] == 403


async def test_use_and_what_is_left_are_shown(site: Site) -> None:
    node = await RemoteNode.online(site, resources={"cpu": 8, "memory_mb": 8192})
    await site.send("PUT", f"{PROJECTS}/shop", {"max_running": 3, "max_waiting": 5, "cpu": 2, "memory_mb": 512})
    await site.submit(project_id="shop", min_resources={"cpu": 1.5, "memory_mb": 128})
    await node.take()
    await site.submit(project_id="shop", queue="later", run_at="2099-01-01T00:00:00Z")
    shown = (await site.get(f"{PROJECTS}/shop")).json["quotas"]
    assert {name: shown[name] for name in ("waiting", "running", "cpu", "memory_mb")} == {
        "waiting": {"limit": 5, "used": 1, "left": 4},
        "running": {"limit": 3, "used": 1, "left": 2},
        "cpu": {"limit": 2, "used": 1.5, "left": 0.5},
        "memory_mb": {"limit": 512, "used": 128, "left": 384},
    }
    lowered = (await site.send("PUT", f"{PROJECTS}/shop", {"max_running": 0})).json["quotas"]["running"]
    assert lowered == {"limit": 0, "used": 1, "left": 0}


async def test_projects_are_listed_page_by_page(site: Site) -> None:
    await site.send("PUT", f"{PROJECTS}/b", {})
    await site.submit(project_id="a")
    await site.submit(project_id="a/b c")
    await site.submit()
    listed = (await site.get(PROJECTS, role="viewer")).json
    assert [(one["name"], one["version"], one["weight"]) for one in listed["projects"]] == [
        ("a", 0, 1),
        ("a/b c", 0, 1),
        ("b", 1, 1),
    ]
    assert listed["next_cursor"] is None
    first = (await site.get(f"{PROJECTS}?limit=2")).json
    assert first["next_cursor"] == "a/b c"
    assert [one["name"] for one in (await site.get(f"{PROJECTS}?limit=2&cursor=a%2Fb%20c")).json["projects"]] == ["b"]
    assert (await site.get(f"{PROJECTS}/a%2Fb%20c")).json["name"] == "a/b c"


async def test_a_project_nobody_knows_is_not_found(site: Site) -> None:
    assert (await site.get(f"{PROJECTS}/nobody")).told[:2] == (404, "not_found")
    assert (await site.send("DELETE", f"{PROJECTS}/nobody")).told[:2] == (404, "not_found")


async def test_a_dropped_project_has_the_defaults_again(site: Site) -> None:
    await site.send("PUT", f"{PROJECTS}/shop", {"max_waiting": 0})
    assert (await site.post("/api/v1/tasks", {"task_type": "echo", "project_id": "shop"})).told[:2] == (
        429,
        "over_limit",
    )
    assert (await site.send("DELETE", f"{PROJECTS}/shop", role="operator")).status == 204
    await site.submit(project_id="shop")
    assert (await site.get(f"{PROJECTS}/shop")).json["version"] == 0
    assert ("operator", "project.delete", "shop") in await site.audited()


async def test_a_full_project_refuses_with_the_time_to_come_again(site: Site) -> None:
    await site.send("PUT", f"{PROJECTS}/shop", {"max_waiting": 1})
    await site.submit(project_id="shop")
    refused = await site.post("/api/v1/tasks", {"task_type": "echo", "project_id": "shop"})
    assert refused.told[:2] == (429, "over_limit")
    assert int(refused.headers["Retry-After"]) > 0
    assert "quota 'waiting' of project shop: 1 of 1" in refused.json["detail"]
    batch = {"tasks": [{"task_type": "echo", "project_id": name} for name in ("shop", "other")]}
    assert (await site.post("/api/v1/tasks:batch", batch)).told[:2] == (429, "over_limit")
    assert (await site.get(f"{PROJECTS}/other")).status == 404, "nothing of it was stored"


async def test_a_full_project_refuses_groups_flows_and_runs_of_schedules_as_a_whole(site: Site) -> None:
    echo = {"task_type": "echo", "project_id": "shop"}
    schedule = (await site.post("/api/v1/schedules", {"every_s": 3600, "task": echo})).json["id"]
    await site.send("PUT", f"{PROJECTS}/shop", {"max_waiting": 1})
    steps = {name: {"task": {"task_type": "echo"}} for name in ("one", "two")}
    group = {"project_id": "shop", "tasks": [echo, echo]}
    for path, body in (("groups", group), ("flows", {"project_id": "shop", "steps": steps})):
        refused = await site.post(f"/api/v1/{path}", body)
        assert refused.told[:2] == (429, "over_limit")
        assert "quota 'waiting' of project shop: 0 of 1 wait, and 2 more would be above it" in refused.json["detail"]
        assert (await site.get(f"/api/v1/{path}")).json[path] == []
    run = f"/api/v1/schedules/{schedule}:run"
    assert (await site.post(run, {})).status == 201
    refused = await site.post(f"{run}?force=true", {})
    assert refused.told[:2] == (429, "over_limit")
    assert int(refused.headers["Retry-After"]) > 0
    assert (await site.get(f"{PROJECTS}/shop")).json["quotas"]["waiting"]["used"] == 1


async def test_a_task_that_waits_for_its_quota_says_so(site: Site) -> None:
    node = await RemoteNode.online(site)
    await site.send("PUT", f"{PROJECTS}/shop", {"max_running": 1})
    await site.submit(project_id="shop")
    await node.take()
    task = await site.submit(project_id="shop")
    why = (await site.get(f"/api/v1/tasks/{task}/why")).json
    assert why["sentence"] == "quota 'running' of project shop: 1 of 1 in use"
    refused = await site.post(f"/api/v1/tasks/{task}:assign", {"node": node.text})
    assert refused.told[:2] == (409, "over_quota")
    assert "1 of 1 in use" in refused.json["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"weight": 0}, "weight"),
        ({"weight": -1}, "weight"),
        ({"weight": 1e9}, "weight"),
        ({"weight": "2"}, "weight"),
        ({"max_running": -1}, "max_running"),
        ({"max_running": 1.5}, "max_running"),
        ({"max_waiting": True}, "max_waiting"),
        ({"max_waiting": 10**30}, "max_waiting"),
        ({"cpu": -0.5}, "cpu"),
        ({"memory_mb": "all"}, "memory_mb"),
        ({"on_full": "shout"}, "on_full"),
        ({"pages": 5}, "pages"),
        ({"expected_version": -1}, "expected_version"),
        ([], None),
    ],
)
async def test_a_bad_change_is_told_what_is_wrong_and_changes_nothing(site: Site, body: Any, field: str | None) -> None:
    told = (await site.send("PUT", f"{PROJECTS}/shop", body)).told
    assert told[:2] == (422, "invalid_input")
    assert field is None or told[2] == field
    assert (await site.get(f"{PROJECTS}/shop")).status == 404


async def test_a_change_that_somebody_was_quicker_with_is_refused(site: Site) -> None:
    await site.send("PUT", f"{PROJECTS}/shop", {"weight": 2, "expected_version": 0})
    refused = await site.send("PUT", f"{PROJECTS}/shop", {"weight": 3, "expected_version": 0})
    assert refused.told[:2] == (409, "conflict")
    assert (await site.get(f"{PROJECTS}/shop")).json["weight"] == 2


# -- queues


async def test_a_queue_gets_an_order(site: Site) -> None:
    done = await site.send("PUT", "/api/v1/queues/news", {"order": "lifo"}, role="operator")
    assert (done.status, done.json) == (200, {"name": "news", "order": "lifo", "has_changed": True})
    assert not (await site.send("PUT", "/api/v1/queues/news", {"order": "lifo"})).json["has_changed"]
    listed = {one["name"]: one["order"] for one in (await site.get("/api/v1/queues")).json["queues"]}
    assert listed == {"default": "fifo", "news": "lifo"}
    assert ("operator", "queue.put", "news") in await site.audited()
    assert (await site.send("PUT", "/api/v1/queues/news", {"order": "lifo"}, role="viewer")).told[0] == 403


@pytest.mark.parametrize(
    ("body", "field"), [({}, "order"), ({"order": "random"}, "order"), ({"order": "lifo", "size": 1}, "size")]
)
async def test_a_bad_order_is_told_what_is_wrong(site: Site, body: dict[str, Any], field: str) -> None:
    assert (await site.send("PUT", "/api/v1/queues/news", body)).told == (422, "invalid_input", field)


# -- daily quotas


async def test_a_daily_quota_is_shown_with_what_is_left_and_when_it_renews(site: Site) -> None:
    made = await site.send("PUT", f"{PROJECTS}/shop", {"pages_per_day": 100, "bytes_per_day": 0})
    quotas = made.json["quotas"]
    renews_at = quotas["pages_per_day"].pop("renews_at")
    assert quotas["pages_per_day"] == {"limit": 100, "used": 0, "left": 100}
    assert quotas["bytes_per_day"] == {"limit": 0, "used": 0, "left": 0, "renews_at": renews_at}
    assert renews_at.endswith("T00:00:00.000Z")
    (listed,) = (await site.get(PROJECTS)).json["projects"]
    assert listed["quotas"]["pages_per_day"]["renews_at"] == renews_at
    dropped = (await site.send("PUT", f"{PROJECTS}/shop", {"bytes_per_day": None})).json["quotas"]
    assert (dropped["bytes_per_day"]["limit"], dropped["pages_per_day"]["limit"]) == (None, 100)


async def test_what_a_node_is_granted_is_used_and_what_it_gives_back_is_left(site: Site) -> None:
    node = await RemoteNode.online(site)
    await site.send("PUT", f"{PROJECTS}/shop", {"pages_per_day": 80})
    await site.submit(project_id="shop")
    run = await node.take()
    assert run.is_metered
    want = SliceWantBody(run.task, run.execution, 1, 50, 1_000)
    (given,) = (await node.sync(wait_ms=2_000, wants=[want])).slices
    assert (given.pages, given.bytes, given.overs) == (10, 1_000, [])
    shown = (await site.get(f"{PROJECTS}/shop")).json["quotas"]
    assert (shown["pages_per_day"]["used"], shown["pages_per_day"]["left"]) == (10, 70)
    node.held.remove(run.execution)
    await node.sync(outcomes=[OutcomeBody(run.task, run.execution, int(End.COMPLETED), used=UsedBody(3, 900))])
    shown = (await site.get(f"{PROJECTS}/shop")).json["quotas"]
    assert [shown[name]["used"] for name in ("pages_per_day", "bytes_per_day")] == [3, 900]


async def test_a_spent_day_refuses_until_it_ends(site: Site) -> None:
    await site.send("PUT", f"{PROJECTS}/shop", {"pages_per_day": 0, "on_full": "refuse"})
    refused = await site.post("/api/v1/tasks", {"task_type": "echo", "project_id": "shop"})
    assert refused.told[:2] == (429, "over_limit")
    assert "quota 'pages per day' of project shop: 0 of 0 left until 00:00 UTC" in refused.json["detail"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    await site.send("PUT", f"{PROJECTS}/shop", {"on_full": "wait"})
    task = await site.submit(project_id="shop")
    why = (await site.get(f"/api/v1/tasks/{task}/why")).json
    assert (why["cause"], why["quota"], why["left"]) == ("quota", "pages_per_day", 0)


@pytest.mark.parametrize("field", ["pages_per_day", "bytes_per_day"])
@pytest.mark.parametrize("amount", [-1, 1.5, 10**16, "5", True])
async def test_a_bad_daily_quota_is_named(site: Site, field: str, amount: Any) -> None:
    told = (await site.send("PUT", f"{PROJECTS}/shop", {field: amount})).told
    assert told == (422, "invalid_input", field)


async def test_a_project_has_a_name_as_long_as_tasks_may_give(site: Site) -> None:
    name = "p" * 200
    await site.submit(project_id=name)
    assert (await site.get(f"{PROJECTS}/{name}")).json["name"] == name
    assert (await site.send("PUT", f"{PROJECTS}/{name}", {"max_running": 3}, role="operator")).status == 200
    assert (await site.send("PUT", "/api/v1/clusters/eu", {"project": name})).json["project"] == name
    assert (await site.get(f"{PROJECTS}/{name}x")).status == 422
    assert (await site.post("/api/v1/tasks", {"task_type": "echo", "project_id": f"{name}x"})).status == 422
