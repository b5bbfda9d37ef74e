"""The same change for many tasks, dead letters, and queues."""

from typing import Any
from urllib.parse import quote

import pytest

from crawlfleet.model.ids import node_text
from crawlfleet.model.node import NodeDescription
from tests.api.kit import Site, Worker, working

LETTERS = "/api/v1/dead-letters"
NOBODY = "task-0000000000000001"


async def buried(site: Site, message: str, **fields: Any) -> str:
    task = await site.submit(parameters={"fail": message, "permanent": True}, **fields)
    await site.until_status(task, "failed")
    return task


async def statuses(site: Site, *tasks: str) -> list[str]:
    return [(await site.task(task))["status"] for task in tasks]


async def test_many_are_cancelled_by_their_ids(site: Site) -> None:
    first, second = await site.submit(), await site.submit()
    answer = await site.post("/api/v1/tasks:cancel", {"ids": [first, NOBODY, second, first]}, role="operator")
    assert answer.status == 200
    assert answer.json == {
        "changed": 2,
        "by_status": {"cancelled": 2},
        "refused": 1,
        "next_cursor": None,
        "refusals": [{"id": NOBODY, "code": "unknown_task", "detail": answer.json["refusals"][0]["detail"]}],
    }


async def test_many_are_cancelled_by_a_filter_and_the_others_are_left(site: Site) -> None:
    tasks = [{"task_type": "echo", "project_id": "a"}] * 2_500 + [{"task_type": "echo", "project_id": "b"}]
    await site.post("/api/v1/tasks:batch", {"tasks": tasks})
    answer = await site.post("/api/v1/tasks:cancel", {"filter": {"project_id": "a"}})
    assert (answer.json["changed"], answer.json["refused"], answer.json["next_cursor"]) == (2_500, 0, None)
    assert (await site.get("/api/v1/tasks:stats?project_id=b")).json["by_status"]["pending"] == 1
    again = await site.post("/api/v1/tasks:cancel", {"filter": {"project_id": "a"}})
    assert (again.json["changed"], again.json["refused"]) == (0, 0)


async def test_a_filter_that_names_final_tasks_is_answered_with_refusals_a_bounded_number_of_them(site: Site) -> None:
    tasks = [{"task_type": "echo", "project_id": "a"}] * 150
    await site.post("/api/v1/tasks:batch", {"tasks": tasks})
    await site.post("/api/v1/tasks:cancel", {"filter": {"project_id": "a"}})
    answer = await site.post("/api/v1/tasks:cancel", {"filter": {"project_id": "a", "status": ["cancelled"]}})
    assert (answer.json["changed"], answer.json["refused"], len(answer.json["refusals"])) == (0, 150, 100)


async def test_many_are_retried_and_completed_ones_are_not_meant(site: Site, worker: Worker) -> None:
    failed = await buried(site, "no", project_id="a")
    done = await site.submit(project_id="a")
    await site.until_status(done, "completed")
    answer = await site.post("/api/v1/tasks:retry", {"filter": {"project_id": "a"}}, role="operator")
    assert (answer.json["changed"], answer.json["by_status"]) == (1, {"pending": 1})
    assert (await site.until_status(failed, "failed"))["round"] == 2
    assert (await site.task(done))["round"] == 1


async def test_many_get_another_priority(site: Site) -> None:
    tasks = [await site.submit(queue="slow") for _ in range(3)]
    answer = await site.post("/api/v1/tasks:prioritize", {"filter": {"queue": "slow"}, "priority": 9})
    assert answer.json["changed"] == 3
    assert [(await site.task(task))["priority"] for task in tasks] == [9, 9, 9]


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("cancel", {}, "body"),
        ("cancel", {"filter": {}}, "filter"),
        ("cancel", {"ids": []}, "ids"),
        ("cancel", {"ids": ["x"]}, "ids[0]"),
        ("cancel", {"ids": [NOBODY], "filter": {"queue": "a"}}, "body"),
        ("retry", {"filter": {"state": "x"}}, "filter.state"),
        ("retry", {"filter": {"status": ["x"]}}, "filter.status[0]"),
        ("cancel", {"ids": [NOBODY] * 10_001}, "ids"),
        ("prioritize", {"ids": [NOBODY]}, "priority"),
        ("prioritize", {"ids": [NOBODY], "priority": 0}, "priority"),
        ("cancel", {"filter": {"node": "x"}}, "node"),
        ("cancel", {"filter": {"queue": "\ud800"}}, "filter.queue"),
        ("cancel", {"ids": [NOBODY], "x": 1}, "x"),
    ],
)
async def test_a_wrong_bulk_change_is_refused(site: Site, verb: str, body: Any, field: str) -> None:
    task = await site.submit()
    assert (await site.post(f"/api/v1/tasks:{verb}", body)).told == (422, "invalid_input", field)
    assert await statuses(site, task) == ["pending"]


async def test_dead_letters_are_listed_grouped_and_looked_at(site: Site, worker: Worker) -> None:
    first = await buried(site, "404 from the shop", project_id="a")
    second = await buried(site, "404 from the shop", project_id="b")
    page = (await site.get(f"{LETTERS}?limit=1", role="viewer")).json
    assert [letter["task_id"] for letter in page["dead_letters"]] == [second]
    rest = (await site.get(f"{LETTERS}?limit=10&cursor={page['next_cursor']}")).json
    assert [letter["task_id"] for letter in rest["dead_letters"]] == [first]
    assert rest["next_cursor"] is None
    assert [one["task_id"] for one in (await site.get(f"{LETTERS}?project_id=a")).json["dead_letters"]] == [first]
    (group,) = (await site.get(f"{LETTERS}:groups", role="viewer")).json["groups"]
    assert (group["count"], group["example"]) == (2, second)
    assert len((await site.get(f"{LETTERS}?cause={quote(group['cause'])}")).json["dead_letters"]) == 2
    detail = (await site.get(f"{LETTERS}/{first}")).json
    assert detail["dead_letter"]["error"]["message"] == "404 from the shop"
    assert detail["task"]["id"] == first
    assert [one["status"] for one in detail["executions"]] == ["failed"]


async def test_a_dead_letter_is_replayed(site: Site, worker: Worker) -> None:
    task = await buried(site, "no")
    answer = await site.post(f"{LETTERS}/{task}:replay", role="operator")
    assert (answer.status, answer.json) == (200, {"id": task, "status": "pending"})
    assert (await site.until_status(task, "failed"))["round"] == 2


async def test_many_dead_letters_are_replayed_by_id_or_cause(site: Site, worker: Worker) -> None:
    tasks = [await buried(site, "no") for _ in range(3)]
    done = await site.submit()
    await site.until_status(done, "completed")
    answer = (await site.post(f"{LETTERS}:replay", {"ids": [tasks[0], done, NOBODY]}, role="operator")).json
    assert (answer["changed"], answer["refused"]) == (1, 2)
    assert {refusal["id"] for refusal in answer["refusals"]} == {done, NOBODY}
    await site.until_status(tasks[0], "failed")
    (group,) = (await site.get(f"{LETTERS}:groups")).json["groups"]
    answer = (await site.post(f"{LETTERS}:replay", {"cause": group["cause"]})).json
    assert answer["changed"] == 3


async def test_a_dead_letter_is_dropped_with_its_task(site: Site, worker: Worker) -> None:
    task = await buried(site, "no")
    answer = await site.send("DELETE", f"{LETTERS}/{task}", role="operator")
    assert (answer.status, answer.content) == (204, b"")
    assert (await site.get(f"{LETTERS}/{task}")).told == (404, "not_found", None)
    assert (await site.get(f"/api/v1/tasks/{task}")).told == (404, "not_found", None)


async def test_only_dead_letters_are_dropped_or_replayed_here(site: Site, worker: Worker) -> None:
    done = await site.submit()
    await site.until_status(done, "completed")
    for method, path in (("DELETE", f"{LETTERS}/{done}"), ("POST", f"{LETTERS}/{done}:replay")):
        assert (await site.send(method, path)).told == (404, "not_found", None)
    assert await statuses(site, done) == ["completed"]


@pytest.mark.parametrize("body", [{}, {"ids": [NOBODY], "cause": "x"}])
async def test_a_replay_names_ids_or_a_cause(site: Site, body: Any) -> None:
    assert (await site.post(f"{LETTERS}:replay", body)).told == (422, "invalid_input", "body")


async def test_a_paused_queue_keeps_its_tasks_until_it_is_resumed(site: Site, worker: Worker) -> None:
    answer = await site.pause("slow")
    assert (answer.status, answer.json) == (200, {"name": "slow", "is_paused": True, "has_changed": True})
    assert (await site.post("/api/v1/queues/slow:pause")).json["has_changed"] is False
    task = await site.submit(queue="slow")
    queues = {one["name"]: one for one in (await site.get("/api/v1/queues", role="viewer")).json["queues"]}
    assert queues["slow"] == {"name": "slow", "is_paused": True, "has_pending": True, "order": "fifo"}
    assert queues["default"]["is_paused"] is False
    assert (await site.get(f"/api/v1/tasks/{task}/why")).json["cause"] == "queue_paused"
    await site.post("/api/v1/queues/slow:resume", role="operator")
    await site.until_status(task, "completed")


@pytest.mark.parametrize("name", ["%00", "x" * 101])
async def test_a_queue_has_a_name_that_can_be_kept(site: Site, name: str) -> None:
    assert (await site.post(f"/api/v1/queues/{name}:pause")).told == (422, "invalid_input", "name")


async def test_a_queue_may_have_a_slash_in_its_name(site: Site) -> None:
    assert (await site.post("/api/v1/queues/shop%2Fslow:pause")).json["name"] == "shop/slow"


async def test_many_are_given_to_a_node_by_its_name_as_far_as_it_has_room(site: Site) -> None:
    await site.pause("kept")
    async with working(site, name="pi", slots=10) as worker:
        tasks = [await site.submit(parameters={"hold": True}, queue="kept", project_id="a") for _ in range(12)]
        other = await site.submit(queue="kept", project_id="b")

        async def is_ready() -> bool:
            answer = await site.post("/api/v1/tasks:assign", {"ids": [tasks[0]], "node": "pi"}, role="operator")
            return bool(answer.json["changed"])

        await site.until(is_ready)
        answer = (await site.post("/api/v1/tasks:assign", {"filter": {"project_id": "a"}, "node": "pi"})).json
        assert (answer["changed"], answer["by_status"], answer["refused"]) == (9, {"assigned": 9}, 2)
        assert {refusal["code"] for refusal in answer["refusals"]} == {"does_not_fit"}
        assert (await site.task(tasks[0]))["assigned_node"] == node_text(worker.node)
        assert (await site.task(other))["status"] == "pending"
        nobody = (await site.post("/api/v1/tasks:assign", {"ids": [NOBODY], "node": "pi"})).json
        assert (nobody["changed"], nobody["refusals"][0]["id"]) == (0, NOBODY)


async def test_a_name_that_no_node_or_several_have_is_refused(site: Site) -> None:
    body = {"ids": [NOBODY], "node": "twin"}
    none = await site.post("/api/v1/tasks:assign", body)
    assert none.told == (422, "invalid_input", "node")
    assert "no node has this id, device id or name: 'twin'" in none.json["detail"]
    nodes = [
        (await site.master.register.register_node(NodeDescription(name="twin", slots=1), f"join {at}")).node
        for at in (1, 2)
    ]
    several = await site.post("/api/v1/tasks:assign", body)
    assert several.told == (422, "invalid_input", "node")
    assert all(node_text(node) in several.json["detail"] for node in nodes)


async def test_many_dead_letters_are_dropped_by_id_or_cause(site: Site, worker: Worker) -> None:
    tasks = [await buried(site, "no") for _ in range(3)]
    kept = await buried(site, "another")
    done = await site.submit()
    await site.until_status(done, "completed")
    answer = (await site.post(f"{LETTERS}:drop", {"ids": [tasks[0], done, NOBODY]}, role="operator")).json
    assert (answer["changed"], answer["refused"]) == (1, 2)
    assert {refusal["id"] for refusal in answer["refusals"]} == {done, NOBODY}
    cause = (await site.get(f"{LETTERS}/{tasks[1]}")).json["dead_letter"]["cause"]
    answer = (await site.post(f"{LETTERS}:drop", {"cause": cause})).json
    assert (answer["changed"], answer["refused"]) == (2, 0)
    for task in tasks:
        assert (await site.get(f"/api/v1/tasks/{task}")).status == 404
    assert await statuses(site, kept, done) == ["failed", "completed"]
    assert (await site.post(f"{LETTERS}:drop", {"cause": cause}, role="viewer")).status == 403


@pytest.mark.parametrize("verb", ["replay", "drop"])
async def test_a_cause_that_no_dead_letter_has_is_an_error(site: Site, verb: str) -> None:
    answer = await site.post(f"{LETTERS}:{verb}", {"cause": "http: never"})
    assert answer.told == (404, "not_found", None)
    assert answer.json["detail"] == "no dead letter has the cause 'http: never'"


async def test_several_queues_are_paused_and_resumed(site: Site) -> None:
    answer = await site.post("/api/v1/queues:pause", {"names": ["a", "b", "a"]}, role="operator")
    assert answer.json == {"queues": [{"name": name, "is_paused": True, "has_changed": True} for name in "ab"]}
    answer = await site.post("/api/v1/queues:resume", {"names": ["b", "c"]})
    assert [(one["name"], one["has_changed"]) for one in answer.json["queues"]] == [("b", True), ("c", False)]
    paused = [one["name"] for one in (await site.get("/api/v1/queues")).json["queues"] if one["is_paused"]]
    assert paused == ["a"]
    assert (await site.post("/api/v1/queues:pause", {"names": []})).told == (422, "invalid_input", "names")
    assert ("queues.pause", "queues") in {(action, target) for _, action, target in await site.audited()}


async def test_a_refused_change_names_its_task(site: Site) -> None:
    task = await site.submit()
    await site.post(f"/api/v1/tasks/{task}:cancel")
    assert (await site.post(f"/api/v1/tasks/{task}:cancel")).json["detail"] == f"{task}: has ended"
    assert (await site.post(f"/api/v1/tasks/{NOBODY}:retry")).json["detail"] == f"no task {NOBODY}"
