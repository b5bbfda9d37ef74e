"""Tasks as they are shown, listed, searched and changed."""

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from crawlfleet.errors import ReadTooLong
from crawlfleet.model.ids import node_text
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tasks import task_search
from tests.api.kit import Site, Worker, working
from tests.api.routes.tasks.test_submit import EXAMPLE

TASKS = "/api/v1/tasks"
NOBODY = "task-0000000000000001"
SOURCE_FIELDS = {
    "id",
    "project_id",
    "workflow_id",
    "task_type",
    "parameters",
    "priority",
    "min_resources",
    "capabilities",
    "schedule_strategy",
    "target_region",
    "content_features",
    "status",
    "created_at",
    "updated_at",
    "assigned_node",
    "assigned_at",
    "retry_count",
    "max_retries",
}


async def listed(site: Site, query: str = "") -> list[str]:
    answer = await site.get(f"{TASKS}{query}", role="viewer")
    assert answer.status == 200, answer.content
    return [task["id"] for task in answer.json["tasks"]]


async def test_a_running_task_is_shown_with_its_node(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"hold": True}, project_id="proj-123")
    shown = await site.until_status(task, "processing")
    assert set(shown) >= SOURCE_FIELDS
    assert shown["assigned_node"] == node_text(worker.node)
    assert shown["assigned_at"] <= shown["updated_at"]
    assert shown["updated_at"].endswith("Z")
    assert (shown["retry_count"], shown["max_retries"], shown["completed_at"], shown["result"]) == (0, 3, None, None)


async def test_a_result_that_has_the_documented_shape_itself_is_not_wrapped_again(site: Site, worker: Worker) -> None:
    given = {
        "success": True,
        "data": {"products": []},
        "metrics": {"pages_crawled": 2},
        "timestamp": "2026-01-01T00:00:00Z",
        "items": 500,
        "data_truncated": True,
        "notes": ["capped"],
    }
    task = await site.submit(parameters=given)
    assert (await site.until_status(task, "completed"))["result"] == given


async def test_a_completed_task_is_shown_with_its_result(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"products": [{"title": "Product 1"}]})
    shown = await site.until_status(task, "completed")
    assert set(shown) >= SOURCE_FIELDS | {"completed_at", "result"}
    result = shown["result"]
    assert result["success"] is True
    assert result["data"] == {"products": [{"title": "Product 1"}]}
    assert result["metrics"] == {"pages_crawled": 15}
    assert result["timestamp"] == shown["completed_at"] == shown["updated_at"]
    assert shown["error"] is None


async def test_a_failed_task_is_shown_with_its_error(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"fail": "503 from the shop", "permanent": True})
    shown = await site.until_status(task, "failed")
    assert shown["error"] == {"class": "http", "message": "503 from the shop", "is_permanent": True}
    assert shown["result"] is None
    assert "503 from the shop" in shown["reason"]


async def test_the_example_waits_and_says_what_no_node_has(site: Site, worker: Worker) -> None:
    task = (await site.post(TASKS, EXAMPLE)).json["id"]
    why = (await site.get(f"{TASKS}/{task}/why", role="viewer")).json
    assert (why["id"], why["status"], why["cause"]) == (task, "pending", "no_node")
    assert "javascript_rendering" in why["sentence"]
    assert why["placement"]["able"] == 0
    plain = {name: value for name, value in EXAMPLE.items() if name not in {"min_resources", "capabilities"}}
    done = await site.until_status((await site.post(TASKS, plain)).json["id"], "completed")
    assert done["result"]["data"] == EXAMPLE["parameters"]


async def test_executions_are_listed_with_how_they_ended(site: Site, worker: Worker) -> None:
    retry = {"max_retries": 1, "base_delay_s": 0.01}
    task = await site.submit(parameters={"fail": "no"}, retry=retry)
    await site.until_status(task, "failed")
    executions = (await site.get(f"{TASKS}/{task}/executions", role="viewer")).json["executions"]
    assert [one["retry_count"] for one in executions] == [one["retry"] for one in executions]
    assert [(one["status"], one["retry"], one["node_id"]) for one in executions] == [
        ("failed", 0, node_text(worker.node)),
        ("failed", 1, node_text(worker.node)),
    ]
    for one in executions:
        assert one["id"].startswith("exec-")
        assert one["task_id"] == task
        assert one["assigned_at"] <= one["end_time"]
        assert {"start_time", "metrics"} <= set(one)
        assert one["error"]["message"] == "no"


async def test_a_running_execution_has_the_status_of_its_task(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"hold": True})
    await site.until_status(task, "processing")
    (one,) = (await site.get(f"{TASKS}/{task}/executions")).json["executions"]
    assert (one["status"], one["end_time"]) == ("processing", None)


@pytest.mark.parametrize("task", [NOBODY, "task-1", "nonsense", "node-0000000000000001", "task-zzzzzzzzzzzzzzzz"])
async def test_what_is_not_there_is_not_found(site: Site, task: str) -> None:
    for method, rest, body in (
        ("GET", "", None),
        ("GET", "/executions", None),
        ("GET", "/why", None),
        ("POST", ":cancel", None),
        ("POST", ":retry", None),
        ("PATCH", "", {"priority": 3}),
        ("POST", ":assign", {"node": "node-1"}),
    ):
        answer = await site.send(method, f"{TASKS}/{task}{rest}", body)
        assert answer.told == (404, "not_found", None), (method, rest)


async def test_lists_are_filtered(site: Site, worker: Worker) -> None:
    done = await site.submit(project_id="a", workflow_id="w")
    await site.until_status(done, "completed")
    failed = await site.submit(project_id="a", parameters={"fail": "no", "permanent": True})
    await site.until_status(failed, "failed")
    queued = await site.submit(project_id="b", queue="slow", task_type="web_crawl", capabilities={"gpu": 1})
    node = node_text(worker.node)
    assert await listed(site) == [queued, failed, done]
    assert await listed(site, "?status=completed") == [done]
    assert await listed(site, "?status=completed,failed") == [failed, done]
    assert await listed(site, "?status=completed&status=pending") == [queued, done]
    assert await listed(site, "?project_id=a") == [failed, done]
    assert await listed(site, "?workflow_id=w") == [done]
    assert await listed(site, "?type=web_crawl") == [queued]
    assert await listed(site, "?queue=slow") == [queued]
    assert await listed(site, f"?node={node}&status=failed") == [failed]
    assert await listed(site, "?project_id=nobody") == []


async def test_a_list_has_parameters_only_when_they_are_asked_for(site: Site) -> None:
    task = await site.submit(parameters={"n": 1})
    (plain,) = (await site.get(TASKS)).json["tasks"]
    assert plain["id"] == task
    assert SOURCE_FIELDS - set(plain) == {"parameters"}
    (whole,) = (await site.get(f"{TASKS}?include=parameters")).json["tasks"]
    assert whole["parameters"] == {"n": 1}
    assert (await site.get(f"{TASKS}?include=secrets")).told == (422, "invalid_input", "include[0]")


async def test_a_page_of_large_tasks_is_bounded_in_bytes(site: Site) -> None:
    tasks = [await site.submit(parameters={"padding": "x" * 900_000}) for _ in range(9)]
    found, cursor = [], ""
    while True:
        answer = await site.get(f"{TASKS}?limit=1000&include=parameters{cursor}")
        assert len(answer.content) < 5 << 20
        found += [task["id"] for task in answer.json["tasks"]]
        if answer.json["next_cursor"] is None:
            break
        cursor = f"&cursor={answer.json['next_cursor']}"
    assert found == tasks[::-1]
    assert len((await site.get(f"{TASKS}?limit=1000")).content) < 100_000


async def test_what_takes_too_long_to_look_up_is_refused_with_advice(site: Site) -> None:
    assert isinstance(site.store, SqlStore)
    with patch.object(site.store.engine, "read_page", side_effect=ReadTooLong()):
        answer = await site.get(f"{TASKS}?q=example")
    assert answer.told == (503, "read_too_long", None)
    assert "ask for less" in answer.json["detail"]
    assert "Retry-After" not in answer.headers


async def test_lists_are_paged_without_gaps(site: Site) -> None:
    ids = [await site.submit() for _ in range(7)]
    seen: list[str] = []
    cursor = ""
    for _ in range(4):
        page = (await site.get(f"{TASKS}?limit=2{cursor}")).json
        seen += [task["id"] for task in page["tasks"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ids[::-1]
    assert (await site.get(f"{TASKS}?limit=7")).json["next_cursor"] is None


async def test_search_finds_ids_names_and_hosts(site: Site) -> None:
    crawl = await site.submit(task_type="web_crawl", parameters={"url": "https://Shop.example.com/a"})
    lower = await site.submit(task_type="web_crawl", parameters={"urls": ["https://x.org", "https://shop.example.com"]})
    named = await site.submit(name="nightly prices", parameters={"note": "see shop.example.com"})
    assert await listed(site, f"?q={crawl}") == [crawl]
    assert await listed(site, f"?q={crawl[:10]}") == [named, lower, crawl]
    assert await listed(site, "?q=nightly") == [named]
    assert await listed(site, "?q=prices") == []
    assert await listed(site, "?q=shop.example") == [lower, crawl]
    assert await listed(site, "?q=example.com&status=pending&type=web_crawl") == [lower, crawl]
    assert await listed(site, f"?q={crawl}&status=completed") == []


@pytest.fixture
def short_searches(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(task_search, "ROWS", 10)
    yield 10


async def test_a_search_looks_a_bounded_way_back_and_says_so(site: Site, short_searches: int) -> None:
    wanted = await site.submit(name="needle")
    await site.post("/api/v1/tasks:batch", {"tasks": [{"task_type": "echo"}] * 25})
    page = (await site.get(f"{TASKS}?q=needle")).json
    assert page["tasks"] == []
    assert page["searched_back_to"].endswith("Z")
    found: list[str] = []
    while page["next_cursor"] is not None:
        page = (await site.get(f"{TASKS}?q=needle&cursor={page['next_cursor']}")).json
        found += [task["id"] for task in page["tasks"]]
    assert found == [wanted]
    assert "searched_back_to" not in page


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=done", "status[0]"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("cursor=next", "cursor"),
        ("node=nowhere", "node"),
        ("colour=red", "colour"),
        ("q=", "q"),
        ("project_id=%00", "project_id"),
        ("q=%00", "q"),
        (f"q={'x' * 201}", "q"),
        ("state=pending", "state"),
    ],
)
async def test_a_wrong_query_is_refused_with_its_name(site: Site, query: str, field: str) -> None:
    assert (await site.get(f"{TASKS}?{query}")).told == (422, "invalid_input", field)


async def test_a_query_nobody_asked_for_is_refused_everywhere(site: Site) -> None:
    task = await site.submit()
    for path in (f"{TASKS}/{task}", f"{TASKS}/{task}/why", "/api/v1/tasks:stats", "/api/v1/queues", "/healthz"):
        assert (await site.get(f"{path}?verbose=1")).told == (422, "invalid_input", "verbose"), path


async def test_stats_name_every_status(site: Site, worker: Worker) -> None:
    await site.until_status(await site.submit(project_id="a"), "completed")
    await site.submit(project_id="b", capabilities={"gpu": 1})
    stats = (await site.get("/api/v1/tasks:stats", role="viewer")).json
    assert stats["total"] == 2
    assert stats["by_status"] == {
        "pending": 1,
        "waiting": 0,
        "assigned": 0,
        "processing": 0,
        "retrying": 0,
        "completed": 1,
        "failed": 0,
        "timeout": 0,
        "cancelled": 0,
    }
    assert (await site.get("/api/v1/tasks:stats?project_id=b")).json["total"] == 1
    assert (await site.get("/api/v1/tasks:stats?project_id=c")).json["total"] == 0


async def test_the_priority_is_changed(site: Site) -> None:
    task = await site.submit(priority=2)
    answer = await site.send("PATCH", f"{TASKS}/{task}", {"priority": 9}, role="operator")
    assert (answer.status, answer.json) == (200, {"id": task, "status": "pending", "priority": 9})
    assert (await site.task(task))["priority"] == 9


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"priority": 11}, "priority"),
        ({"priority": "9"}, "priority"),
        ({}, "priority"),
        ({"priority": 2.5}, "priority"),
        ({"priority": 3, "queue": "x"}, "queue"),
        ([], "body"),
        (None, "body"),
    ],
)
async def test_a_wrong_priority_is_refused(site: Site, body: Any, field: str) -> None:
    task = await site.submit(priority=2)
    assert (await site.send("PATCH", f"{TASKS}/{task}", body)).told == (422, "invalid_input", field)
    assert (await site.task(task))["priority"] == 2


async def test_cancelling_waiting_work_is_final_at_once(site: Site) -> None:
    task = await site.submit()
    answer = await site.post(f"{TASKS}/{task}:cancel", role="operator")
    assert (answer.status, answer.json) == (200, {"id": task, "status": "cancelled"})
    assert (await site.post(f"{TASKS}/{task}:cancel")).told == (409, "already_final", None)


async def test_cancelling_running_work_is_asked_of_its_node(site: Site, worker: Worker) -> None:
    task = await site.submit(parameters={"hold": True})
    await site.until_status(task, "processing")
    answer = await site.post(f"{TASKS}/{task}:cancel")
    assert (answer.status, answer.json) == (202, {"id": task, "status": "processing", "is_requested": True})
    await site.until_status(task, "cancelled")


async def test_a_retry_opens_the_next_round(site: Site, worker: Worker) -> None:
    task = await site.submit()
    assert (await site.until_status(task, "completed"))["round"] == 1
    answer = await site.post(f"{TASKS}/{task}:retry", role="operator")
    assert (answer.status, answer.json["id"]) == (200, task)
    assert (await site.until_status(task, "completed"))["round"] == 2


async def test_a_retry_of_what_has_not_ended_is_refused(site: Site) -> None:
    task = await site.submit()
    answer = await site.post(f"{TASKS}/{task}:retry")
    assert answer.told == (409, "not_final", None)
    assert ":cancel" in answer.json["hint"]


async def test_a_task_is_assigned_by_hand(site: Site) -> None:
    async with working(site, name="first", device_id="pi-7", slots=1) as first:
        await site.pause("byhand")
        task = await site.submit(queue="byhand", parameters={"hold": True})

        async def is_assigned() -> bool:
            return (await site.post(f"{TASKS}/{task}:assign", {"node": "pi-7"}, role="operator")).status == 200

        await site.until(is_assigned)
        shown = await site.until_status(task, "processing")
        assert shown["assigned_node"] == node_text(first.node)
        again = await site.post(f"{TASKS}/{task}:assign", {"node": node_text(first.node)})
        assert again.told == (409, "not_ready", None)


async def test_a_node_that_does_not_fit_or_is_not_there_is_refused(site: Site, worker: Worker) -> None:
    task = await site.submit(capabilities={"gpu": 1})
    path = f"{TASKS}/{task}:assign"
    assert (await site.post(path, {"node": node_text(worker.node)})).told == (409, "does_not_fit", None)
    assert (await site.post(path, {"node": "pi-8"})).told == (422, "invalid_input", "node")
    assert (await site.post(path, {"node": "node-0000000000000001"})).told == (404, "not_found", None)
    assert (await site.post(path, {})).told == (422, "invalid_input", "node")
    assert (await site.task(task))["status"] == "pending"


async def test_a_thousand_at_once_all_finish(site: Site, worker: Worker) -> None:
    gate = asyncio.Semaphore(100)

    async def one(number: int) -> None:
        async with gate:
            await site.submit(parameters={"n": number})

    await asyncio.gather(*(one(number) for number in range(1_000)))

    async def are_done() -> bool:
        return bool((await site.get("/api/v1/tasks:stats")).json["by_status"]["completed"] == 1_000)

    await site.until(are_done)


async def test_the_time_that_a_task_was_submitted_for_is_shown(site: Site) -> None:
    task = await site.submit(run_at="2099-01-01T01:00:00+01:00")
    shown = await site.task(task)
    assert (shown["run_at"], shown["due_at"]) == ("2099-01-01T00:00:00.000Z",) * 2
    assert (await site.task(await site.submit()))["run_at"] is None


async def test_the_time_that_a_task_was_submitted_for_is_shown_when_it_is_over(site: Site, worker: Worker) -> None:
    task = await site.submit(run_at="2026-01-01T00:00:00Z")
    shown = await site.until_status(task, "completed")
    assert (shown["run_at"], shown["due_at"]) == ("2026-01-01T00:00:00.000Z", None)
