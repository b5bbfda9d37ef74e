"""The queue dialect: its words out, its tolerance in, and nothing stored of what is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crawlfleet.api.dialects.queue_views import STATUS_WORDS
from crawlfleet.model.status import TaskStatus
from tests.api.kit import Answer, Site, Worker

FIELDS = [
    "id",
    "type",
    "status",
    "priority",
    "params",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "retry_count",
    "max_retries",
    "error_message",
    "result",
    "depends_on",
]
NOTHING = "task-0000000000000001"


async def submit(site: Site, **fields: Any) -> str:
    answer = await site.post("/api/tasks", {"type": "echo", "params": {}, **fields})
    assert answer.status == 200, answer.content
    assert list(answer.json) == ["task_id", "status"]
    assert answer.json["status"] == "submitted"
    task: str = answer.json["task_id"]
    return task


async def show(site: Site, task: str) -> Any:
    answer = await site.get(f"/api/tasks/{task}", role="viewer")
    assert answer.status == 200, answer.content
    assert list(answer.json) == FIELDS
    return answer.json


async def show_when(site: Site, task: str, *statuses: str) -> Any:
    await site.until_status(task, *statuses)
    return await show(site, task)


async def count_tasks(site: Site) -> int:
    total: int = (await site.get("/api/v1/tasks:stats")).json["total"]
    return total


def assert_not_found(answer: Answer) -> None:
    assert answer.told == (404, "not_found", None)
    assert answer.json["detail"] == "Task not found"


async def test_a_task_from_submit_to_success(site: Site, worker: Worker) -> None:
    before = time.time()
    task = await submit(site, params={"url": "http://a.example", "n": [1, 2]}, priority=7, max_retries=2)
    shown = await show_when(site, task, "completed")
    assert shown["id"] == task
    assert (shown["type"], shown["status"], shown["priority"]) == ("echo", "success", 7)
    assert shown["params"] == shown["result"] == {"url": "http://a.example", "n": [1, 2]}
    assert (shown["retry_count"], shown["max_retries"]) == (0, 2)
    assert (shown["error_message"], shown["depends_on"]) == (None, [])
    times = [before - 1, *(shown[name] for name in ("created_at", "finished_at"))]
    assert times == sorted(times)
    assert shown["updated_at"] == shown["finished_at"]
    assert all(isinstance(instant, float) for instant in times)


async def test_what_is_left_out_has_the_defaults_of_the_queue(site: Site) -> None:
    shown = await show(site, await submit(site, queue="held"))
    assert (shown["status"], shown["priority"], shown["max_retries"]) == ("pending", 5, 3)
    assert (shown["started_at"], shown["finished_at"], shown["result"]) == (None, None, None)
    assert shown["created_at"] == shown["updated_at"]
    task = await submit(site, queue="held", max_retries=None, depends_on=None, run_at=None, project_id=None)
    assert (await show(site, task))["max_retries"] == 3


async def test_each_status_has_one_of_six_words() -> None:
    assert set(STATUS_WORDS) == set(TaskStatus)
    assert set(STATUS_WORDS.values()) == {"pending", "running", "success", "failed", "cancelled", "retrying"}


async def test_a_failed_task_says_why(site: Site, worker: Worker) -> None:
    task = await submit(site, params={"fail": "no such page", "permanent": True})
    shown = await show_when(site, task, "failed")
    assert (shown["status"], shown["error_message"], shown["result"]) == ("failed", "no such page", None)


async def test_a_task_that_is_tried_again_says_so(site: Site, worker: Worker) -> None:
    shown = await show_when(site, await submit(site, params={"fail": "busy"}), "retrying")
    assert (shown["status"], shown["error_message"], shown["retry_count"]) == ("retrying", "busy", 1)


async def test_a_timeout_is_a_failure_that_says_so(site: Site, worker: Worker) -> None:
    answer = await site.post(
        "/api/v1/tasks",
        {"task_type": "echo", "parameters": {"hold": True}, "timeout_s": 1, "retry": {"max_retries": 0}},
    )
    shown = await show_when(site, answer.json["id"], "timeout")
    assert shown["status"] == "failed"
    assert shown["error_message"].startswith("timeout: ")


async def test_a_task_waits_for_others_and_for_its_time(site: Site) -> None:
    first = await submit(site, queue="held")
    second = await submit(site, depends_on=[first], run_at=time.time() + 3_600, queue="held", project_id="shop")
    shown = await show(site, second)
    assert (shown["status"], shown["depends_on"]) == ("pending", [first])
    full = await site.task(second)
    assert (full["status"], full["queue"], full["project_id"]) == ("waiting", "held", "shop")
    assert full["due_at"] is not None
    third = await submit(site, run_at="2030-01-01T00:00:00Z")
    assert (await site.task(third))["run_at"] == "2030-01-01T00:00:00.000Z"


async def test_a_priority_may_be_the_name_of_a_class(site: Site) -> None:
    values = {"values": {"priority_high": 8, "priority_normal": 6, "priority_low": 2}}
    assert (await site.send("PUT", "/api/v1/clusters/default/config", values)).status == 200
    shown = [await show(site, await submit(site, priority=name, queue="held")) for name in ("high", "normal", "low")]
    assert [task["priority"] for task in shown] == [8, 6, 2]


async def test_a_repeated_submit_makes_one_task(site: Site) -> None:
    body, headers = {"type": "echo", "params": {"n": 1}}, {"Idempotency-Key": "again"}
    first, second = [await site.post("/api/tasks", body, headers=headers) for _ in range(2)]
    assert (first.json, second.headers["Idempotency-Replayed"]) == (second.json, "true")
    assert await count_tasks(site) == 1
    other = await site.post("/api/tasks", {"type": "echo", "params": {"n": 2}}, headers=headers)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    batch = {"tasks": [body, body]}
    headers = {"Idempotency-Key": "batch"}
    first, second = [await site.post("/api/tasks/batch", batch, headers=headers) for _ in range(2)]
    assert (first.status, first.json, second.headers["Idempotency-Replayed"]) == (200, second.json, "true")
    assert await count_tasks(site) == 3
    other = await site.post("/api/tasks/batch", {"tasks": [body]}, headers=headers)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "unheard_of"}, "type"),
        ({"type": ""}, "type"),
        ({"type": 1}, "type"),
        ({"type": None}, "type"),
        ({"params": None}, "params"),
        ({"params": []}, "params"),
        ({"params": {"name": "a\x00b"}}, "params.name"),
        ({"params": {"n": 2**64}}, "params.n"),
        ({"priority": 0}, "priority"),
        ({"priority": 11}, "priority"),
        ({"priority": 5.5}, "priority"),
        ({"priority": "urgent"}, "priority"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 101}, "max_retries"),
        ({"depends_on": [NOTHING]}, "depends_on[0]"),
        ({"depends_on": ["task-1"]}, "depends_on[0]"),
        ({"depends_on": "task-1"}, "depends_on"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": -1}, "run_at"),
        ({"run_at": 1e300}, "run_at"),
        ({"queue": ""}, "queue"),
        ({"project_id": "p" * 201}, "project_id"),
        ({"prioritty": 1}, "prioritty"),
    ],
)
async def test_a_wrong_field_is_named_and_nothing_is_stored(site: Site, change: dict[str, Any], field: str) -> None:
    answer = await site.post("/api/tasks", {"type": "echo", "params": {}, **change})
    status, _, named = answer.told
    assert (status, named) == (422, field)
    batch = await site.post("/api/tasks/batch", {"tasks": [{"type": "echo", "params": {}, **change}]})
    assert batch.told == (422, "batch_refused", f"tasks[0].{field}")
    assert await count_tasks(site) == 0


@pytest.mark.parametrize("field", ["type", "params"])
async def test_a_missing_field_is_named(site: Site, field: str) -> None:
    body = {"type": "echo", "params": {}}
    del body[field]
    assert (await site.post("/api/tasks", body)).told == (422, "invalid_input", field)


@pytest.mark.parametrize("path", ["/api/tasks", "/api/tasks/batch", "/api/tasks/batch/cancel"])
async def test_what_is_no_json_is_refused(site: Site, path: str) -> None:
    for data in (b"", b"{not json", b"[]", b'"text"', b"\xff", b"[" * 10_000):
        assert (await site.post(path, data=data)).status in (400, 422), data
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await site.post(path, data=b"type=echo", headers=form)).told[:2] == (415, "unsupported_media_type")
    assert (await site.post(f"{path}?mode=each", {"tasks": []})).status == 422
    assert await count_tasks(site) == 0


async def test_a_batch_is_stored_as_a_whole(site: Site) -> None:
    tasks = [{"type": "echo", "params": {"n": number}, "queue": "held"} for number in range(20)]
    answer = await site.post("/api/tasks/batch", {"tasks": tasks})
    assert (answer.status, list(answer.json), answer.json["status"]) == (200, ["task_ids", "status"], "submitted")
    shown = [(await show(site, task))["params"]["n"] for task in answer.json["task_ids"]]
    assert shown == list(range(20))


async def test_half_a_bad_batch(site: Site) -> None:
    good, bad = {"type": "echo", "params": {}, "queue": "held"}, {"type": "unheard_of", "params": {}}
    refused = await site.post("/api/tasks/batch", {"tasks": [good, bad, good]})
    assert refused.told == (422, "batch_refused", "tasks[1].type")
    assert await count_tasks(site) == 0
    answer = await site.post("/api/tasks/batch", {"tasks": [good, bad, good, 7], "atomic": False})
    assert (answer.status, answer.json["status"]) == (200, "partial")
    results = answer.json["results"]
    assert [result["status"] for result in results] == ["submitted", "refused", "submitted", "refused"]
    assert [results[0]["task_id"], results[2]["task_id"]] == answer.json["task_ids"]
    assert (results[1]["error"]["code"], results[1]["error"]["field"]) == ("unknown_type", "type")
    assert await count_tasks(site) == 2
    none = await site.post("/api/tasks/batch", {"tasks": [bad], "atomic": False})
    assert (none.status, none.json["status"], none.json["task_ids"]) == (200, "refused", [])
    both = await site.post("/api/tasks/batch", {"tasks": [good, good], "atomic": False})
    assert (both.json["status"], len(both.json["results"])) == ("submitted", 2)


async def test_a_batch_has_its_bounds(site: Site) -> None:
    task = {"type": "echo", "params": {}, "queue": "held"}
    for tasks in ([], [task] * 10_001):
        assert (await site.post("/api/tasks/batch", {"tasks": tasks})).told == (422, "invalid_input", "tasks")
    assert await count_tasks(site) == 0
    ids = {"task_ids": [NOTHING] * 10_001}
    assert (await site.post("/api/tasks/batch/cancel", ids)).told == (422, "invalid_input", "task_ids")
    assert (await site.post("/api/tasks/batch/cancel", {"task_ids": []})).told[0] == 422
    answer = await site.post("/api/tasks/batch", {"tasks": [task] * 10_000})
    assert len(set(answer.json["task_ids"])) == 10_000
    cancelled = await site.post("/api/tasks/batch/cancel", {"task_ids": answer.json["task_ids"]})
    assert cancelled.json["cancelled"] == answer.json["task_ids"]


@pytest.mark.parametrize("text", [NOTHING, "task-1", "batch", "1", "node-0000000000000001", "%00", "a" * 300])
async def test_an_id_of_nothing_is_not_found(site: Site, text: str) -> None:
    assert_not_found(await site.get(f"/api/tasks/{text}"))
    if text != "batch":
        assert_not_found(await site.post(f"/api/tasks/{text}/cancel"))


async def test_a_cancel_is_final_at_once_or_when_the_node_has_stopped(site: Site, worker: Worker) -> None:
    waiting, held = await submit(site, run_at=time.time() + 3_600), await submit(site, params={"hold": True})
    running = await show_when(site, held, "processing")
    assert (running["status"], running["finished_at"]) == ("running", None)
    assert running["created_at"] <= running["started_at"] == running["updated_at"]
    for task, status in ((waiting, "cancelled"), (held, "cancelling")):
        answer = await site.post(f"/api/tasks/{task}/cancel", role="operator")
        assert (answer.status, answer.json) == (200, {"task_id": task, "status": status})
    shown = await show_when(site, held, "cancelled")
    assert (shown["status"], shown["error_message"]) == ("cancelled", "cancelled while running")
    assert (await show(site, waiting))["error_message"] == "cancelled by request"
    assert (await site.post(f"/api/tasks/{held}/cancel")).told[:2] == (409, "already_final")
    assert [entry for entry in await site.audited() if entry[1] == "task.cancel"] == [
        ("operator", "task.cancel", waiting),
        ("operator", "task.cancel", held),
    ]


async def test_many_are_cancelled_and_the_others_refused_by_name(site: Site, worker: Worker) -> None:
    waiting, held = await submit(site, run_at=time.time() + 3_600), await submit(site, params={"hold": True})
    done = await submit(site)
    await site.until_status(held, "processing")
    await site.until_status(done, "completed")
    body = {"task_ids": [waiting, held, done, NOTHING, "x", waiting]}
    answer = await site.post("/api/tasks/batch/cancel", body, role="operator")
    assert (answer.status, answer.json) == (
        200,
        {
            "cancelled": [waiting],
            "cancelling": [held],
            "refused": {"x": "Task not found", done: "has ended", NOTHING: "Task not found"},
        },
    )
    assert ("operator", "tasks.cancel", "tasks") in await site.audited()


async def test_roles_and_keys_are_those_of_the_api(site: Site) -> None:
    task = await submit(site, queue="held")
    for method, path, body in (
        ("POST", "/api/tasks", {"type": "echo", "params": {}}),
        ("POST", "/api/tasks/batch", {"tasks": []}),
        ("POST", f"/api/tasks/{task}/cancel", None),
        ("POST", "/api/tasks/batch/cancel", {"task_ids": [task]}),
    ):
        assert (await site.send(method, path, body, role="viewer")).told[0] == 403, path
        assert (await site.send(method, path, body, role=None)).told[0] == 401, path
        assert (await site.send(method, path, body, token="0" * 64)).told[0] == 401, path
    assert (await site.get(f"/api/tasks/{task}", role="enrol")).told[0] == 403
    assert (await site.get(f"/api/tasks/{task}", role=None)).told[0] == 401
    assert (await show(site, task))["status"] == "pending"
    key = {"X-API-Key": site.tokens["operator"]}
    answer = await site.post("/api/tasks", {"type": "echo", "params": {}}, role=None, headers=key)
    assert answer.status == 200


async def test_the_paths_of_the_other_dialects_are_not_taken(site: Site) -> None:
    assert (await site.get("/api/v1/tasks")).status == 200
    assert "tasks" in (await site.get("/api/v1/tasks")).json
    assert (await site.get("/api/tasks")).told[:2] == (405, "method_not_allowed")
    assert (await site.send("DELETE", "/api/tasks/batch")).told[:2] == (405, "method_not_allowed")


async def sizes(site: Site) -> dict[str, int]:
    answer = await site.get("/api/stats", role="viewer")
    assert answer.status == 200, answer.content
    shown: dict[str, int] = answer.json
    assert list(shown) == ["high_queue_size", "normal_queue_size", "low_queue_size", "retry_queue_size"]
    assert all(isinstance(size, int) for size in shown.values())
    return shown


async def until_sizes(site: Site, *expected: int) -> None:
    async def is_shown() -> bool:
        return list((await sizes(site)).values()) == list(expected)

    await site.until(is_shown)


async def test_what_waits_is_counted_by_class(site: Site) -> None:
    assert set((await sizes(site)).values()) == {0}
    await site.pause("held")
    tasks = [{"type": "echo", "params": {}, "priority": n, "queue": "held"} for n in range(1, 11)]
    ids = (await site.post("/api/tasks/batch", {"tasks": tasks})).json["task_ids"]
    await until_sizes(site, 1, 5, 4, 0)
    await site.post(f"/api/tasks/{ids[9]}/cancel")
    await until_sizes(site, 0, 5, 4, 0)
    values = {"values": {"priority_high": 7, "priority_normal": 3}}
    assert (await site.send("PUT", "/api/v1/clusters/default/config", values)).status == 200
    await until_sizes(site, 3, 4, 2, 0)


async def test_what_waits_for_a_retry_is_counted_by_itself(site: Site, worker: Worker) -> None:
    await site.until_status(await submit(site, params={"fail": "busy"}, priority=10), "retrying")
    await submit(site, run_at=time.time() + 3_600, priority=10)
    held = await submit(site, params={"hold": True}, priority=10)
    await site.until_status(held, "processing")
    await until_sizes(site, 1, 0, 0, 1)


async def test_statistics_of_tasks(site: Site, worker: Worker) -> None:
    empty = {
        "started": {},
        "completed": {"success": 0, "failed": 0, "cancelled": 0},
        "avg_duration": None,
        "failure_rate": None,
    }
    for query in ("", "?window=1h", "?window=24h", "?window=7d"):
        assert (await site.get(f"/api/stats/tasks{query}", role="viewer")).json == empty
    for number in range(3):
        await site.until_status(await submit(site, params={"n": number}), "completed")
    await site.until_status(await submit(site, params={"fail": "x", "permanent": True}), "failed")
    held, waiting = await submit(site, params={"hold": True}), await submit(site, run_at=time.time() + 3_600)
    await site.until_status(held, "processing")
    for task in (held, waiting):
        await site.post(f"/api/tasks/{task}/cancel")
    await site.until_status(held, "cancelled")
    for query in ("", "?window=1h", "?window=24h", "?window=7d"):

        async def is_counted(query: str = query) -> bool:
            shown = (await site.get(f"/api/stats/tasks{query}")).json
            return bool(shown["completed"] == {"success": 3, "failed": 1, "cancelled": 2})

        await site.until(is_counted)
        shown = (await site.get(f"/api/stats/tasks{query}")).json
        assert list(shown) == list(empty)
        assert list(shown["started"]) == ["echo"]
        assert shown["failure_rate"] == 0.25
        assert isinstance(shown["avg_duration"], float)


@pytest.mark.parametrize("window", ["", "1", "1w", "0h", "401d", "-1h", "h"])
async def test_a_wrong_window_is_refused(site: Site, window: str) -> None:
    assert (await site.get(f"/api/stats/tasks?window={window}")).told == (422, "invalid_input", "window")


async def test_statistics_need_a_viewer(site: Site) -> None:
    for path in ("/api/stats", "/api/stats/tasks"):
        assert (await site.get(path, role="viewer")).status == 200
        assert (await site.get(path, role="enrol")).told[0] == 403
        assert (await site.get(path, role=None)).told[0] == 401
        assert (await site.get(f"{path}?windows=1h")).told == (422, "invalid_input", "windows")
