"""Groups: made whole or not at all, seen and changed as one."""

from typing import Any

import pytest

from tests.api.kit import Answer, Site, Worker
from tests.api.remote_node import RemoteNode

GROUPS = "/api/v1/groups"
NOBODY = "group-0000000000000001"
URLS = [f"https://example.com/{n}" for n in range(10)]
FAIL = {"fail": "no such page", "permanent": True}
HOLD = {"hold": True}


async def created(site: Site, **fields: Any) -> Any:
    answer = await site.post(GROUPS, fields)
    assert answer.status == 201, answer.content
    assert answer.headers["Location"] == f"{GROUPS}/{answer.json['id']}"
    return answer.json


async def with_tasks(site: Site, *parameters: Any, **fields: Any) -> str:
    tasks = [{"task_type": "echo", "parameters": one} for one in parameters]
    found: str = (await created(site, tasks=tasks, **fields))["id"]
    return found


async def shown(site: Site, group: str) -> Any:
    answer = await site.get(f"{GROUPS}/{group}", role="viewer")
    assert answer.status == 200, answer.content
    return answer.json


async def counts(site: Site, group: str) -> dict[str, int]:
    progress = (await shown(site, group))["progress"]
    return {name: progress[name] for name in ("open", "completed", "failed", "timeout", "cancelled") if progress[name]}


async def until_finished(site: Site, group: str) -> Any:
    async def is_finished() -> bool:
        return (await shown(site, group))["finished_at"] is not None

    await site.until(is_finished)
    return await shown(site, group)


async def members(site: Site, group: str) -> list[Any]:
    """In order."""
    tasks: list[Any] = (await site.get(f"/api/v1/tasks?group={group}&include=parameters")).json["tasks"]
    return tasks[::-1]


async def test_a_group_is_made_with_its_tasks(site: Site) -> None:
    group = await created(
        site, name="spring", project_id="shop", tasks=[{"task_type": "echo"}, {"task_type": "echo", "priority": 9}]
    )
    assert (group["name"], group["project_id"], group["kind"]) == ("spring", "shop", "group")
    assert (group["is_closed"], group["is_finished"], group["is_complete"]) == (False, False, False)
    assert group["progress"] == {
        "total": 2,
        "open": 2,
        "completed": 0,
        "failed": 0,
        "timeout": 0,
        "cancelled": 0,
        "percent": 0.0,
        "rate_per_s": None,
        "left_s": None,
    }
    tasks = await members(site, group["id"])
    assert [(task["group_id"], task["project_id"], task["priority"]) for task in tasks] == [
        (group["id"], "shop", 5),
        (group["id"], "shop", 9),
    ]
    assert ("admin", "group.create", group["id"]) in await site.audited()


async def test_one_bad_task_and_nothing_is_made(site: Site) -> None:
    tasks = [{"task_type": "echo"}, {"task_type": "echo", "priority": 99}]
    answer = await site.post(GROUPS, {"tasks": tasks})
    assert answer.told == (422, "batch_refused", "tasks[1].priority")
    assert (await site.get(GROUPS)).json["groups"] == []
    assert (await site.get("/api/v1/tasks:stats")).json["total"] == 0


async def test_the_same_key_makes_one_group(site: Site) -> None:
    body = {"name": "a", "tasks": [{"task_type": "echo"}]}
    first = await site.post(GROUPS, body, headers={"Idempotency-Key": "k"})
    again = await site.post(GROUPS, body, headers={"Idempotency-Key": "k"})
    other = await site.post(GROUPS, {**body, "name": "b"}, headers={"Idempotency-Key": "k"})
    assert (first.status, again.status, first.json["id"]) == (201, 201, again.json["id"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    assert len((await site.get(GROUPS)).json["groups"]) == 1


async def test_tasks_join_an_open_group_of_their_project(site: Site) -> None:
    group = (await created(site, name="later", project_id="shop"))["id"]
    await site.submit(group_id=group, project_id="shop")
    assert await counts(site, group) == {"open": 1}
    for fields, told in (
        ({"group_id": group}, (422, "invalid_input", "group_id")),
        ({"group_id": NOBODY}, (422, "unknown_group", "group_id")),
        ({"group_id": "shop"}, (422, "invalid_input", "group_id")),
        ({"group_id": 5}, (422, "invalid_input", "group_id")),
    ):
        assert (await site.post("/api/v1/tasks", {"task_type": "echo", **fields})).told == told
    closed = await site.post(f"{GROUPS}/{group}:close")
    assert (closed.status, closed.json["is_closed"]) == (200, True)
    body = {"task_type": "echo", "group_id": group, "project_id": "shop"}
    assert (await site.post("/api/v1/tasks", body)).told == (409, "group_closed", "group_id")
    assert await counts(site, group) == {"open": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"task": {"task_type": "echo"}}, "shard"),
        ({"shard": {"over": "urls", "size": 1}}, "task"),
        ({"task": {"task_type": "echo"}, "shard": {"over": "urls", "size": 1}, "tasks": []}, "tasks"),
        ({"task": {"task_type": "echo"}, "shard": {"over": "urls", "size": 1}}, "shard.over"),
        ({"task": {"task_type": "echo", "parameters": {"urls": URLS}}, "shard": {"size": 1}}, "shard.over"),
        ({"task": {"task_type": "echo", "parameters": {"urls": URLS}}, "shard": {"over": "urls"}}, "shard"),
        (
            {
                "task": {"task_type": "echo", "parameters": {"urls": URLS}},
                "shard": {"over": "urls", "size": 1, "count": 1},
            },
            "shard",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": URLS}}, "shard": {"over": "urls", "size": 0}},
            "shard.size",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": URLS}}, "shard": {"over": "urls", "count": -1}},
            "shard.count",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": URLS}}, "shard": {"over": "urls", "size": "2"}},
            "shard.size",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": "x"}}, "shard": {"over": "urls", "size": 1}},
            "task.parameters.urls",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": []}}, "shard": {"over": "urls", "size": 1}},
            "task.parameters.urls",
        ),
        (
            {"task": {"task_type": "echo", "parameters": {"urls": [1] * 10_001}}, "shard": {"over": "urls", "size": 1}},
            "shard.size",
        ),
        (
            {
                "task": {"task_type": "echo", "parameters": {"urls": [1] * 20_000}},
                "shard": {"over": "urls", "count": 15_000},
            },
            "shard.count",
        ),
        (
            {"task": {"task_type": "nobody", "parameters": {"urls": URLS}}, "shard": {"over": "urls", "size": 5}},
            "task.task_type",
        ),
        ({"task": {"task_type": "echo", "parameters": []}, "shard": {"over": "urls", "size": 5}}, "task.parameters"),
        (
            {
                "task": {"task_type": "echo", "parameters": {"urls": ["x" * 600_000] * 2}},
                "shard": {"over": "urls", "size": 2},
            },
            "task.parameters.urls",
        ),
        ({"task": 5, "shard": {"over": "urls", "size": 5}}, "task"),
        ({"tasks": {}}, "tasks"),
        ({"tasks": None}, "tasks"),
        ({"tasks": [{"task_type": "echo", "project_id": "b"}], "project_id": "a"}, "tasks[0].project_id"),
        ({"tasks": [{"task_type": "echo", "group_id": NOBODY}]}, "tasks[0].group_id"),
        ({"tasks": [{"task_type": "echo"}] * 10_001}, "tasks"),
        ({"is_closed": True}, "is_closed"),
        ({"name": "x" * 201}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"name": 5}, "name"),
        ({"nmae": "a"}, "nmae"),
        ([], "body"),
    ],
)
async def test_what_is_wrong_with_a_group_is_named_and_nothing_is_made(site: Site, body: Any, field: str) -> None:
    answer = await site.post(GROUPS, body)
    assert (answer.status, answer.told[2]) == (422, field), answer.content
    assert (await site.get(GROUPS)).json["groups"] == []
    assert (await site.get("/api/v1/tasks:stats")).json["total"] == 0


async def test_a_body_that_cannot_be_read_is_told(site: Site) -> None:
    assert (await site.post(GROUPS, data=b'{"tasks": [')).told == (400, "malformed", "body")
    sent = {"Content-Type": "text/plain"}
    assert (await site.post(GROUPS, data=b"{}", headers=sent)).told[:2] == (415, "unsupported_media_type")


async def test_a_list_is_split_in_order(site: Site) -> None:
    task = {"task_type": "echo", "parameters": {"depth": 1, "urls": URLS}, "priority": 7}
    by_size = await created(site, name="all", project_id="shop", task=task, shard={"over": "urls", "size": 4})
    assert (by_size["kind"], by_size["is_closed"]) == ("shards", True)
    assert by_size["shard"] == {"over": "urls", "shards": 3, "values": 10, "size": 4}
    tasks = await members(site, by_size["id"])
    assert [one["parameters"] for one in tasks] == [
        {"depth": 1, "urls": URLS[:4]},
        {"depth": 1, "urls": URLS[4:8]},
        {"depth": 1, "urls": URLS[8:]},
    ]
    assert {(one["priority"], one["project_id"]) for one in tasks} == {(7, "shop")}
    by_count = await created(site, task=task, shard={"over": "urls", "count": 4})
    assert [len(one["parameters"]["urls"]) for one in await members(site, by_count["id"])] == [3, 3, 2, 2]
    few = await created(site, task=task, shard={"over": "urls", "count": 400})
    assert few["progress"]["total"] == 10


async def test_a_list_larger_than_one_task_may_be_is_split(site: Site) -> None:
    urls = ["x" * 600_000] * 4
    task = {"task_type": "echo", "parameters": {"urls": urls}}
    group = await created(site, task=task, shard={"over": "urls", "size": 1})
    assert group["progress"]["total"] == 4


async def test_progress_follows_the_members(site: Site, worker: Worker) -> None:
    group = await with_tasks(site, {}, FAIL, {}, HOLD)

    async def has_ended() -> bool:
        return (await counts(site, group)) == {"completed": 2, "failed": 1, "open": 1}

    await site.until(has_ended)
    seen = await shown(site, group)
    assert (seen["progress"]["percent"], seen["is_finished"], seen["finished_at"]) == (75.0, False, None)
    assert seen["progress"]["rate_per_s"] > 0
    assert seen["progress"]["left_s"] > 0
    (failure,) = seen["failures"]
    assert (failure["status"], failure["message"]) == ("failed", "no such page")
    assert failure["task_id"] == (await members(site, group))[1]["id"]


async def test_a_group_is_cancelled_as_one(site: Site, worker: Worker) -> None:
    group = await with_tasks(site, HOLD, {})
    held, done = await members(site, group)
    await site.until_status(held["id"], "processing")
    await site.until_status(done["id"], "completed")
    await site.pause("default")
    waiting = await site.submit(group_id=group)
    answer = await site.post(f"{GROUPS}/{group}:cancel", role="operator")
    assert (answer.status, answer.json["changed"], answer.json["refused"]) == (200, 2, 0)
    assert answer.json["by_status"] == {"processing": 1, "cancelled": 1}
    assert (await site.task(waiting))["reason"] == "its group was cancelled"
    seen = await until_finished(site, group)
    assert await counts(site, group) == {"completed": 1, "cancelled": 2}
    assert (seen["is_closed"], seen["is_complete"]) == (True, False)
    assert (await site.post(f"{GROUPS}/{group}:cancel")).json["changed"] == 0


async def test_only_what_failed_is_retried(site: Site, worker: Worker) -> None:
    group = await with_tasks(site, {}, FAIL, HOLD)
    good, bad, held = await members(site, group)
    await site.until_status(bad["id"], "failed")
    await site.until_status(good["id"], "completed")
    answer = await site.post(f"{GROUPS}/{group}:retry", role="operator")
    assert (answer.json["changed"], answer.json["by_status"]) == (1, {"pending": 1})
    assert [task["round"] for task in await members(site, group)] == [1, 2, 1]
    await site.until_status(bad["id"], "failed")
    await site.post(f"{GROUPS}/{group}:cancel")
    await until_finished(site, group)
    assert (await site.post(f"{GROUPS}/{group}:retry?status=cancelled")).json["changed"] == 1
    assert [task["round"] for task in await members(site, group)] == [1, 2, 2]
    assert (await site.task(held["id"]))["status"] != "cancelled"
    assert (await shown(site, group))["finished_at"] is None


async def test_the_end_of_a_group_is_told_each_time(site: Site, worker: Worker) -> None:
    group = await with_tasks(site, FAIL)
    for times in (1, 2):
        await until_finished(site, group)

        async def is_told(times: int = times) -> bool:
            events = (await site.get("/api/v1/events?format=json&kind=group.&limit=1000")).json["events"]
            kinds = [event["kind"] for event in events if event["data"]["group"] == group]
            return kinds == ["group.created"] + ["group.finished"] * times

        await site.until(is_told)
        await site.post(f"{GROUPS}/{group}:retry")


async def test_a_group_is_removed_when_it_is_finished(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await with_tasks(site, {})
    one = await node.take()
    assert (await site.send("DELETE", f"{GROUPS}/{group}")).told[:2] == (409, "group_open")
    await node.put(one, "items", 0, b'{"n":1}\n')
    await node.finish(one, {"items": 1, "item_chunks": 1})
    (task,) = await members(site, group)
    answer = await site.send("DELETE", f"{GROUPS}/{group}", role="operator")
    assert (answer.status, answer.json) == (200, {"id": group, "is_gone": True, "left": 0})
    assert (await site.get(f"{GROUPS}/{group}")).told[:2] == (404, "not_found")
    assert (await site.get(f"/api/v1/tasks/{task['id']}")).status == 404
    await site.master.pruner.run_once(site.master.clock.now())
    assert await site.master.chunks.count(one.task, one.execution, "items") == 0
    assert (await site.get("/api/v1/tasks:stats")).json["total"] == 0


async def test_groups_are_listed_newest_first_in_pages(site: Site) -> None:
    made = [(await created(site, name=f"g{n}", project_id="ab"[n % 2]))["id"] for n in range(5)]
    first = (await site.get(f"{GROUPS}?limit=3", role="viewer")).json
    assert [one["id"] for one in first["groups"]] == made[:1:-1]
    rest = (await site.get(f"{GROUPS}?limit=3&cursor={first['next_cursor']}")).json
    assert ([one["id"] for one in rest["groups"]], rest["next_cursor"]) == (made[1::-1], None)
    assert len((await site.get(f"{GROUPS}?project_id=b")).json["groups"]) == 2
    assert (await site.get(f"{GROUPS}?kind=shards")).json["groups"] == []
    assert (await site.get(f"{GROUPS}?kind=other")).told == (422, "invalid_input", "kind")
    assert (await site.get(f"{GROUPS}?cursor=x")).told == (422, "invalid_input", "cursor")


async def test_a_group_that_is_not_there_is_not_found(site: Site) -> None:
    async def asked(method: str, path: str) -> Answer:
        return await site.send(method, f"{GROUPS}/{path}")

    for group in (NOBODY, "nonsense"):
        for method, path in (
            ("GET", group),
            ("DELETE", group),
            ("POST", f"{group}:cancel"),
            ("POST", f"{group}:retry"),
            ("POST", f"{group}:close"),
            ("GET", f"{group}/results"),
            ("GET", f"{group}/results:download"),
            ("GET", f"{group}/outcomes"),
        ):
            assert (await asked(method, path)).told[:2] == (404, "not_found"), (method, path)
    assert (await site.get("/api/v1/tasks?group=x")).told == (422, "invalid_input", "group")
    assert (await site.get(f"/api/v1/tasks?group={NOBODY}")).json["tasks"] == []


async def test_viewers_look_and_change_nothing(site: Site) -> None:
    group = await with_tasks(site, {})
    changes = (("POST", ""), ("POST", f"/{group}:cancel"), ("POST", f"/{group}:retry"), ("DELETE", f"/{group}"))
    for method, path in changes:
        answer = await site.send(method, f"{GROUPS}{path}", {} if not path else None, role="viewer")
        assert answer.told == (403, "not_allowed", "Authorization"), path


async def test_bulk_changes_know_groups(site: Site) -> None:
    group = await with_tasks(site, {}, {})
    await site.submit()
    answer = await site.post("/api/v1/tasks:prioritize", {"filter": {"group": group}, "priority": 9})
    assert (answer.status, answer.json["changed"]) == (200, 2)
