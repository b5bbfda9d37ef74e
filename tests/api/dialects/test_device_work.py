"""The device dialect: devices pull tasks, and report what became of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawlfleet.control.nodes import pull as pull_service
from crawlfleet.model.limits import RESULT_BYTES
from tests.api.dialects.device_kit import DEVICES, TASKS, Device
from tests.api.kit import PATIENCE_S, Site


@pytest.fixture
async def device(site: Site) -> Device:
    return await Device.register(site)


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_service, "REDELIVERY_S", 0.0)


async def test_a_pull_gets_a_waiting_task_and_its_report_completes_it(site: Site, device: Device) -> None:
    task_id = await site.submit(parameters={"n": 7}, priority=8, timeout_s=60)
    (task,) = await device.pull()
    assert task["execution_id"].startswith("exec-")
    assert task["deadline_at"].endswith("Z")
    assert {name: task[name] for name in ("task_id", "task_type", "params", "priority", "retry_count", "timeout")} == {
        "task_id": task_id,
        "task_type": "echo",
        "params": {"n": 7},
        "priority": 8,
        "retry_count": 0,
        "timeout": 60,
    }
    running = await device.report(task, "running", progress=0.5)
    assert running.json == {"task_id": task_id, "status": "running", "accepted": True}
    assert (await site.task(task_id))["progress"] == 0.5
    done = await device.report(task, "completed", result={"price": 3}, metrics={"pages_crawled": 1})
    assert done.json == {"task_id": task_id, "status": "completed", "accepted": True}
    shown = await site.task(task_id)
    assert (shown["status"], shown["result"]["data"]) == ("completed", {"price": 3})


async def test_a_pull_without_work_is_an_empty_list(device: Device) -> None:
    answer = await device.send_pull()
    assert (answer.status, answer.json["tasks"]) == (200, [])
    assert answer.json["next_pull_s"] > 0


async def test_a_pull_that_waits_gets_what_comes_meanwhile(site: Site, device: Device) -> None:
    await device.pull()
    waiting = asyncio.create_task(device.send_pull(wait_s=20, max_tasks=5))

    async def is_open() -> bool:
        return bool(await site.store.open_pulls())

    await site.until(is_open)
    task_id = await site.submit()
    answer = await asyncio.wait_for(waiting, PATIENCE_S)
    assert [task["task_id"] for task in answer.json["tasks"]] == [task_id]
    assert await site.store.open_pulls() == []


async def test_a_pull_takes_no_more_than_asked_and_the_highest_first(site: Site, device: Device) -> None:
    ids = {priority: await site.submit(priority=priority) for priority in (2, 9, 5, 7)}
    assert [task["task_id"] for task in await device.pull(max_tasks=3)] == [ids[9], ids[7], ids[5]]
    assert [task["task_id"] for task in await device.pull(max_tasks=3)] == [ids[2]]


async def test_no_more_than_the_slots_of_the_device_are_pulled(site: Site) -> None:
    device = await Device.register(site, concurrent_tasks=2)
    for _ in range(4):
        await site.submit()
    first = await device.pull(max_tasks=10)
    assert len(first) == 2
    assert (await device.shown())["status"] == "busy"
    assert await device.pull(max_tasks=10) == []
    await device.run(first[0])
    assert len(await device.pull(max_tasks=10)) == 1


async def test_max_priority_leaves_what_is_above(site: Site, device: Device) -> None:
    ids = {priority: await site.submit(priority=priority) for priority in (9, 3, 1)}
    assert [task["task_id"] for task in await device.pull(max_tasks=5, max_priority=3)] == [ids[3], ids[1]]
    why = (await site.get(f"/api/v1/tasks/{ids[9]}/why")).json
    assert why["sentence"] == "0 of 1 node: 1 not pulling now"
    assert [task["task_id"] for task in await device.pull(max_tasks=5)] == [ids[9]]


async def test_a_pull_may_name_types_and_categories(site: Site) -> None:
    device = await Device.register(site, task_types=["echo", "web_crawl"])
    shoes, plain = await site.submit(categories=["shoes"]), await site.submit()
    crawl = await site.submit(task_type="web_crawl", parameters={"url": "https://a.example"})
    assert [task["task_id"] for task in await device.pull(max_tasks=5, task_types="web_crawl,other")] == [crawl]
    assert [task["task_id"] for task in await device.pull(max_tasks=5, categories="toys,shoes")] == [shoes]
    assert [task["task_id"] for task in await device.pull(max_tasks=5)] == [plain]


async def test_a_device_that_named_no_types_gets_all(site: Site) -> None:
    device = await Device.register(site, task_types=[])
    ids = {await site.submit(), await site.submit(task_type="web_crawl", parameters={"url": "https://a.example"})}
    assert {task["task_id"] for task in await device.pull(max_tasks=5)} == ids


@pytest.mark.usefixtures("no_grace")
async def test_a_lost_answer_is_given_again_under_the_same_execution(site: Site, device: Device) -> None:
    await site.submit()
    (lost,) = await device.pull()
    assert await device.pull() == [lost]
    await device.report(lost, "running")
    assert await device.pull() == []


async def test_within_the_grace_another_pull_does_not_get_the_same(site: Site, device: Device) -> None:
    ids = {await site.submit() for _ in range(4)}
    answers = await asyncio.gather(*(device.send_pull(max_tasks=2, wait_s=1) for _ in range(4)))
    rest = await device.pull(max_tasks=5)
    delivered = [task["task_id"] for answer in answers for task in answer.json["tasks"]]
    delivered += [task["task_id"] for task in rest]
    assert len(delivered) == len(set(delivered)), "each once"
    assert set(delivered) <= ids


async def test_a_newer_pull_ends_the_one_before(site: Site, device: Device) -> None:
    older = asyncio.create_task(device.send_pull(wait_s=20))

    async def is_open() -> bool:
        return bool(await site.store.open_pulls())

    await site.until(is_open)
    newer = asyncio.create_task(device.send_pull(wait_s=20))
    answer = await asyncio.wait_for(older, PATIENCE_S)
    assert (answer.json["tasks"], answer.json["next_pull_s"] >= 1) == ([], True)
    task_id = await site.submit()
    tasks = (await asyncio.wait_for(newer, PATIENCE_S)).json["tasks"]
    assert [task["task_id"] for task in tasks] == [task_id]


async def test_a_pull_opens_the_session_of_a_device_that_never_beat(site: Site, device: Device) -> None:
    await device.pull()
    assert (await device.shown())["status"] == "online"


async def test_a_device_in_maintenance_gets_nothing_new(site: Site, device: Device) -> None:
    await device.beat()
    await device.set_status("maintenance")
    await site.submit()
    assert await device.pull(wait_s=20) == []
    await device.set_status("online")
    assert len(await device.pull()) == 1


async def test_what_a_person_assigns_comes_with_the_next_pull(site: Site, device: Device) -> None:
    await device.beat()
    task_id = await site.submit()
    answer = await site.send("PUT", f"{TASKS}/{task_id}/assign", {"device_id": "dev-1"}, role="operator")
    assert answer.status == 200, answer.content
    (task,) = await device.pull()
    assert answer.json == {
        "task_id": task_id,
        "device_id": "dev-1",
        "execution_id": task["execution_id"],
        "status": "assigned",
    }
    again = await site.send("PUT", f"{TASKS}/{task_id}/assign", {"device_id": "dev-1"}, role="operator")
    assert again.told[:2] == (409, "not_ready")


async def test_a_task_that_the_device_cannot_run_is_not_assigned(site: Site, device: Device) -> None:
    await device.beat()
    task_id = await site.submit(task_type="web_crawl", parameters={"url": "https://a.example"})
    answer = await site.send("PUT", f"{TASKS}/{task_id}/assign", {"device_id": "dev-1"}, role="operator")
    assert answer.told[:2] == (409, "does_not_fit")
    assert "wrong task type" in answer.json["detail"]
    nobody = await site.send("PUT", f"{TASKS}/{task_id}/assign", {"device_id": "nobody"}, role="operator")
    assert nobody.told == (422, "invalid_input", "device_id")
    unknown = await site.send("PUT", f"{TASKS}/task-1/assign", {"device_id": "dev-1"}, role="operator")
    assert unknown.told[:2] == (404, "not_found")


async def test_a_cancel_reaches_the_device_with_its_heartbeat(site: Site, device: Device) -> None:
    task_id = await site.submit()
    (task,) = await device.pull()
    await device.report(task, "running")
    assert (await site.post(f"/api/v1/tasks/{task_id}:cancel")).status == 202
    told = await device.beat(active_tasks=[task_id, "task-0123456789abcdef"])
    assert told["cancel"] == [{"task_id": task_id, "execution_id": task["execution_id"], "reason": "cancel"}]
    assert told["stale"] == ["task-0123456789abcdef"]
    stopped = await device.report(task, "cancelled")
    assert stopped.json["status"] == "cancelled"
    assert (await device.beat())["cancel"] == []


async def test_a_cancelled_task_that_was_never_delivered_is_not(site: Site, device: Device) -> None:
    await device.beat()
    task_id = await site.submit()
    await site.send("PUT", f"{TASKS}/{task_id}/assign", {"device_id": "dev-1"}, role="operator")
    await site.post(f"/api/v1/tasks/{task_id}:cancel")
    assert await device.pull() == []
    told = await device.beat()
    assert (told["cancel"], (await site.task(task_id))["status"]) == ([], "cancelled")


async def test_a_failed_task_is_tried_again_and_a_handed_back_one_at_once(site: Site, device: Device) -> None:
    ids = [await site.submit(retry={"max_retries": 1}) for _ in range(3)]
    tasks = {task["task_id"]: task for task in await device.pull(max_tasks=3)}
    failed = await device.report(tasks[ids[0]], "failed", error_message="no answer", error_class="network")
    assert failed.json["status"] == "retrying"
    error = await device.report(tasks[ids[1]], "error", error="bad page", error_class="input")
    assert error.json["status"] == "failed"
    assert (await site.task(ids[1]))["error"]["class"] == "input"
    back = await device.report(tasks[ids[2]], "pending")
    assert back.json["status"] == "pending"


async def test_a_timeout_counts_as_one(site: Site, device: Device) -> None:
    await site.submit(retry={"max_retries": 0})
    (task,) = await device.pull()
    assert (await device.report(task, "timeout")).json["status"] == "timeout"


async def test_the_same_report_again_is_accepted_again(site: Site, device: Device) -> None:
    await site.submit()
    (task,) = await device.pull()
    for status in ("running", "running", "completed", "success"):
        answer = await device.report(task, status)
        assert (answer.status, answer.json["accepted"]) == (200, True)
    assert (await device.report(task, "failed")).told == (409, "stale_execution", "execution_id")


async def test_a_stale_execution_changes_nothing(site: Site, device: Device) -> None:
    task_id = await site.submit()
    (task,) = await device.pull()
    await device.set_status("offline")
    await device.set_status("online")
    for status in ("running", "completed", "failed", "pending", "cancelled"):
        assert (await device.report(task, status)).told == (409, "stale_execution", "execution_id")
    (again,) = await device.pull(wait_s=10)
    assert (again["task_id"], again["execution_id"] != task["execution_id"]) == (task_id, True)


async def test_a_device_reports_and_pulls_only_for_itself(site: Site, device: Device) -> None:
    other = await Device.register(site, "dev-2")
    await site.submit()
    (task,) = await device.pull()
    for status in ("running", "completed", "failed"):
        assert (await other.report(task, status)).told[:2] == (403, "wrong_node")
    foreign = await other.send("GET", f"{TASKS}/pull?device_id=dev-1")
    assert foreign.told[:2] == (403, "not_allowed")
    assert (await device.report(task, "completed")).status == 200


async def test_an_operator_may_report_for_a_device(site: Site, device: Device) -> None:
    await site.submit()
    (task,) = await device.pull()
    body = {"status": "completed", "execution_id": task["execution_id"]}
    assert (await site.send("PUT", f"{TASKS}/{task['task_id']}/status", body, role="operator")).status == 200
    assert (await site.send("PUT", f"{TASKS}/{task['task_id']}/status", body, role="viewer")).status == 403


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"execution_id": None}, "execution_id"),
        ({"execution_id": "exec-1"}, "execution_id"),
        ({"status": "processing"}, "status"),
        ({"status": None}, "status"),
        ({"error_class": "bad luck"}, "error_class"),
        ({"error_message": "a\0b"}, "error_message"),
        ({"metrics": [1]}, "metrics"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_report_is_refused_with_its_field(site: Site, device: Device, fields: Any, field: str) -> None:
    task_id = await site.submit()
    (task,) = await device.pull()
    answer = await device.report(task, "completed", **fields)
    assert answer.told == (422, "invalid_input", field)
    assert (await site.task(task_id))["status"] == "assigned"


async def test_a_report_needs_its_execution(site: Site, device: Device) -> None:
    await site.submit()
    (task,) = await device.pull()
    answer = await device.send("PUT", f"{TASKS}/{task['task_id']}/status", {"status": "completed"})
    assert answer.told == (422, "invalid_input", "execution_id")


async def test_a_result_that_is_too_large_is_refused(site: Site, device: Device) -> None:
    await site.submit()
    (task,) = await device.pull()
    assert (await device.report(task, "completed", result="x" * RESULT_BYTES)).told == (413, "too_large", "result")
    assert (await device.report(task, "completed", result="x")).status == 200


async def test_a_result_with_half_a_character_is_refused(site: Site, device: Device) -> None:
    await site.submit()
    (task,) = await device.pull()
    body = f'{{"status": "completed", "execution_id": "{task["execution_id"]}", "result": "\\ud800"}}'.encode()
    answer = await site.send("PUT", f"{TASKS}/{task['task_id']}/status", data=body, token=device.key)
    assert answer.told == (422, "invalid_input", "result")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_tasks": 101}, "max_tasks"),
        ({"max_priority": 11}, "max_priority"),
        ({"max_priority": 0}, "max_priority"),
        ({"wait_s": 21}, "wait_s"),
        ({"wait_s": "nan"}, "wait_s"),
        ({"device_id": "nobody"}, "device_id"),
        ({"task_types": ""}, "task_types[0]"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_a_bad_pull_is_refused_with_its_field(device: Device, query: Any, field: str) -> None:
    assert (await device.send_pull(**query)).told == (422, "invalid_input", field)


async def test_a_node_with_an_agent_does_not_pull(site: Site) -> None:
    node = (await site.post("/api/v1/nodes:register", {"name": "n", "slots": 1, "device_id": "agent"})).json
    answer = await site.send("GET", f"{TASKS}/pull?device_id=agent", token=node["secret"])
    assert answer.told == (422, "invalid_input", "device_id")
    assert (await site.get(f"{DEVICES}?status=offline")).json["total"] == 1
