"""The same change for many tasks, dead letters, and queues."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.kit import Site, Worker

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
        "changed": 2, "by_status": {"cancelled": 2}, "refused": 1, "next_cursor": None,
        "refusals": [{"id": NOBODY, "code": "unknown_task", "detail": answer.json["refusals"][0]["detail"]}],
    }  # fmt: skip


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
        ("cancel", {}, "body"), ("cancel", {"filter": {}}, "filter"), ("cancel", {"ids": []}, "ids"),
        ("cancel", {"ids": ["x"]}, "ids[0]"), ("cancel", {"ids": [NOBODY], "filter": {"queue": "a"}}, "body"),
        ("retry", {"filter": {"state": "x"}}, "filter.state"),
        ("retry", {"filter": {"status": ["x"]}}, "filter.status[0]"),
        ("cancel", {"ids": [NOBODY] * 10_001}, "ids"), ("prioritize", {"ids": [NOBODY]}, "priority"),
        ("prioritize", {"ids": [NOBODY], "priority": 0}, "priority"), ("cancel", {"filter": {"node": "x"}}, "node"),
        ("cancel", {"filter": {"queue": "\ud800"}}, "filter.queue"), ("cancel", {"ids": [NOBODY], "x": 1}, "x"),
    ],
)  # fmt: skip
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
