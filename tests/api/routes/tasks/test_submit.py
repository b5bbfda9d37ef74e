"""Submitting: one, many, again under the same key; and everything that is wrong told with its field."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawlfleet.model import limits
from tests.api.kit import Answer, Site

TASKS = "/api/v1/tasks"
BATCH = "/api/v1/tasks:batch"
EXAMPLE = {
    "project_id": "proj-123",
    "workflow_id": "inst-1a2b3c4d5e6f",
    "task_type": "web_crawl",
    "parameters": {
        "url": "https://example.com/products",
        "depth": 2,
        "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
    },
    "priority": 7,
    "min_resources": {"memory_mb": 4096, "cpu_cores": 2},
    "capabilities": {"javascript_rendering": 1, "proxy_rotation": 1},
    "schedule_strategy": "least_loaded",
    "target_region": "us",
    "content_features": {"content_type": "html", "technology": "react"},
}


async def total(site: Site) -> int:
    found: int = (await site.get("/api/v1/tasks:stats")).json["total"]
    return found


async def test_rules_that_cannot_be_used_are_refused_with_their_place(site: Site) -> None:
    rules = {"follow": {"deny": ["/login", "a(b"]}, "selectors": {"product": "div["}}
    answer = await site.post(TASKS, EXAMPLE | {"parameters": EXAMPLE["parameters"] | rules})  # type: ignore[operator]
    assert (answer.status, answer.json["field"]) == (422, "parameters.selectors.product")
    assert "; follow.deny[1]: 'a(b' cannot be used: missing ): a(b at position 0" in answer.json["detail"]
    assert await total(site) == 0


async def test_selectors_that_cannot_be_used_are_refused_with_their_place(site: Site) -> None:
    body = EXAMPLE | {"parameters": EXAMPLE["parameters"] | {"selectors": {"product": "div[", "title": "//h2["}}}  # type: ignore[operator]
    answer = await site.post(TASKS, body)
    assert answer.status == 422
    assert answer.json["field"] == "parameters.selectors.product"
    assert "'[' at position 3 is not closed" in answer.json["detail"]
    assert "selectors.title: '//h2[' is no XPath: invalid expression at position 5" in answer.json["detail"]
    assert await total(site) == 0


async def test_the_example_is_accepted_as_written(site: Site) -> None:
    answer = await site.post(TASKS, EXAMPLE)
    assert answer.status == 201
    body = answer.json
    assert answer.headers["Location"] == f"{TASKS}/{body['id']}"
    assert set(body) == {"id", "status", "created_at", "priority"}
    assert (body["status"], body["priority"]) == ("pending", 7)
    assert body["created_at"].endswith("Z")
    shown = await site.task(body["id"])
    assert {name: shown[name] for name in EXAMPLE} == EXAMPLE


@pytest.mark.parametrize("preemptible", [True, False])
async def test_whether_a_task_is_preemptible_is_kept(site: Site, preemptible: bool) -> None:
    task = await site.submit(preemptible=preemptible)
    assert (await site.task(task))["preemptible"] is preemptible
    assert (await site.task(await site.submit()))["preemptible"] is False


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"task_type": "no_such"}, 422, "unknown_type", "task_type"),
        ({"task_type": "web_crawl", "parameters": {"url": 5}}, 422, "invalid_input", "parameters.url"),
        ({"task_type": "web_crawl", "parameters": {"url": "https:///x"}}, 422, "invalid_input", "parameters.url"),
        ({"task_type": "echo", "priority": 11}, 422, "invalid_input", "priority"),
        ({"task_type": "echo", "priority": "7"}, 422, "invalid_input", "priority"),
        ({"task_type": "echo", "preemptible": "yes"}, 422, "invalid_input", "preemptible"),
        ({"task_type": "echo", "preemptible": None}, 422, "invalid_input", "preemptible"),
        ({"task_type": "echo", "parameters": []}, 422, "invalid_input", "parameters"),
        ({"task_type": "echo", "depends_on": ["task-0000000000000001"]}, 422, "unknown_dependency", "depends_on[0]"),
        ({"task_type": "echo", "depends_on": ["elsewhere"]}, 422, "invalid_input", "depends_on[0]"),
        ({"task_type": "echo", "run_at": "tomorrow"}, 422, "invalid_input", "run_at"),
        ({"task_type": "echo", "run_at": "9999-12-31T23:59:59.9999Z"}, 422, "invalid_input", "run_at"),
        ({"task_type": "echo", "run_at": "9999-12-31T23:59:59-14:00"}, 422, "invalid_input", "run_at"),
        ({"task_type": "echo", "colour": "red"}, 422, "invalid_input", "colour"),
        ({"task_type": "echo", "retry": {"times": 3}}, 422, "invalid_input", "retry.times"),
        ({"task_type": "echo", "name": "a\x00b"}, 422, "invalid_input", "name"),
        ({"priority": 5}, 422, "invalid_input", "task_type"),
        (
            {"task_type": "echo", "parameters": {"text": "x" * (limits.PARAMETERS_BYTES + 1)}},
            413,
            "too_large",
            "parameters",
        ),
        ([], 422, "invalid_input", "body"),
    ],
)
async def test_a_wrong_task_is_refused_with_its_field(
    site: Site, body: Any, status: int, code: str, field: str
) -> None:
    assert (await site.post(TASKS, body)).told == (status, code, field)
    assert await total(site) == 0


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b'{"task_type": "echo"', "body"),
        (b"", "body"),
        (b'{"task_type": "\xff"}', "task_type"),
        (b'{"task_type": "echo", "parameters": {"a": "\xc3\x28"}}', "parameters"),
        (b'{"task_type": "echo", "parameters": ' + b'{"a":' * 100_000 + b"}" * 100_000 + b"}", "parameters"),
    ],
)
async def test_a_body_that_cannot_be_read_is_told_so(site: Site, data: bytes, field: str) -> None:
    answer = await site.post(TASKS, data=data)
    status, code, told = answer.told
    assert (status, code, told) in {(400, "malformed", field), (422, "invalid_input", field)}
    assert await total(site) == 0


async def test_a_body_of_ten_megabytes_is_refused(site: Site) -> None:
    body = b'{"task_type": "echo", "parameters": {"text": "' + b"x" * 10_000_000 + b'"}}'
    for path in (TASKS, BATCH, "/api/v1/tasks:cancel"):
        assert (await site.post(path, data=body)).told == (413, "too_large", "body"), path


async def test_a_body_without_a_length_is_refused_while_it_comes(site: Site) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1_000):
            taken += 1
            yield b"x" * 100_000

    for path in (TASKS, "/api/v1/tasks:cancel"):
        assert (await site.post(path, data=endless())).told == (413, "too_large", "body")


async def test_another_type_of_body_is_refused(site: Site) -> None:
    xml = {"Content-Type": "text/xml"}
    for path in (TASKS, BATCH, "/api/v1/tasks:cancel"):
        answer = await site.post(path, data=b"<task/>", headers=xml)
        assert answer.told == (415, "unsupported_media_type", "Content-Type"), path


async def test_an_unknown_query_parameter_is_refused(site: Site) -> None:
    assert (await site.post(f"{TASKS}?dry_run=1", {"task_type": "echo"})).told == (422, "invalid_input", "dry_run")
    assert await total(site) == 0


async def test_the_same_key_gives_the_first_answer_again(site: Site) -> None:
    key = {"Idempotency-Key": "abc"}
    body = {"task_type": "echo", "project_id": "shop"}
    first = await site.post(TASKS, body, headers=key)
    again = await site.post(TASKS, body, headers=key, role="operator")
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    other = await site.post(TASKS, {**body, "priority": 1}, headers=key)
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    assert await total(site) == 1


async def test_without_a_project_a_key_belongs_to_its_token(site: Site) -> None:
    key, body = {"Idempotency-Key": "abc"}, {"task_type": "echo"}
    ids = [(await site.post(TASKS, body, headers=key, role=role)).json["id"] for role in ("admin", "operator", "admin")]
    assert ids[0] == ids[2] != ids[1]


@pytest.mark.parametrize("key", ["", "x" * 201])
async def test_a_key_has_bounds(site: Site, key: str) -> None:
    answer = await site.post(TASKS, {"task_type": "echo"}, headers={"Idempotency-Key": key})
    assert answer.told == (422, "invalid_input", "Idempotency-Key")


async def test_many_at_once_all_finish_up_stored(site: Site) -> None:
    await asyncio.gather(*(site.submit(parameters={"n": number}) for number in range(200)))
    assert await total(site) == 200


async def test_a_batch_answers_in_order_and_stores_what_is_right(site: Site) -> None:
    tasks = [{"task_type": "echo", "priority": 3}, {"task_type": "echo", "priority": 11}, {"task_type": "nope"}, 7]
    answer = await site.post(BATCH, {"tasks": tasks, "mode": "each"})
    assert answer.status == 200
    good, wrong, unknown, number = answer.json["tasks"]
    assert set(good) == {"id", "status", "created_at", "priority"}
    assert good["priority"] == 3
    assert (wrong["error"]["code"], wrong["error"]["field"]) == ("invalid_input", "priority")
    assert unknown["error"]["code"] == "unknown_type"
    assert number["error"]["code"] == "invalid_input"
    assert await total(site) == 1


async def test_an_atomic_batch_stores_all_or_none(site: Site) -> None:
    tasks = [{"task_type": "echo"}, {"task_type": "echo", "priority": 0}]
    answer = await site.post(BATCH, {"tasks": tasks, "mode": "atomic"})
    assert answer.told == (422, "batch_refused", "tasks[1].priority")
    spared, wrong = answer.json["tasks"]
    assert (spared["error"]["code"], wrong["error"]["code"]) == ("batch_refused", "invalid_input")
    assert await total(site) == 0
    assert (await site.post(BATCH, {"tasks": tasks[:1] * 3, "mode": "atomic"})).status == 200
    assert await total(site) == 3


async def _lines(site: Site, tasks: list[Any], query: str = "", **more: Any) -> Answer:
    data = b"\n".join(json.dumps(task).encode() for task in tasks) + b"\n\n"
    return await site.post(f"{BATCH}{query}", data=data, headers={"Content-Type": "application/x-ndjson"}, **more)


async def test_a_batch_may_come_as_lines(site: Site) -> None:
    answer = await _lines(site, [{"task_type": "echo"}, {"task_type": "nope"}, {"task_type": "echo"}])
    assert answer.status == 200
    assert ["id" in item for item in answer.json["tasks"]] == [True, False, True]
    refused = await _lines(site, [{"task_type": "echo"}, {"task_type": "nope"}], "?mode=atomic")
    assert refused.told == (422, "batch_refused", "tasks[1].task_type")
    assert await total(site) == 2


async def test_a_line_that_is_no_json_costs_only_itself(site: Site) -> None:
    data = b'{"task_type":"echo"}\n{"task_type":"ech\n{"task_type":"echo"}'
    answer = await site.post(BATCH, data=data, headers={"Content-Type": "application/x-ndjson"})
    assert ["id" in item for item in answer.json["tasks"]] == [True, False, True]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{}", (422, "invalid_input", "tasks")),
        (b'{"tasks": []}', (422, "invalid_input", "tasks")),
        (b'{"tasks": {}}', (422, "invalid_input", "tasks")),
        (b'{"tasks": 3}', (422, "invalid_input", "tasks")),
        (b'{"tasks": [], "mode": "some"}', (422, "invalid_input", "mode")),
        (b'{"tasks": [], "atomic": true}', (422, "invalid_input", "atomic")),
        (b'[{"task_type": "echo"}]', (422, "invalid_input", "body")),
        (b'{"tasks": [', (400, "malformed", "body")),
        (b"\xff\xfe", (400, "malformed", "body")),
        (b'{"tasks": [{}' + b",{}" * limits.BATCH_TASKS + b"]}", (422, "invalid_input", "tasks")),
    ],
)
async def test_a_wrong_batch_is_refused_whole(site: Site, data: bytes, told: tuple[int, str, str]) -> None:
    assert (await site.post(BATCH, data=data)).told == told
    assert await total(site) == 0


async def test_ten_thousand_in_one_call(site: Site) -> None:
    tasks = [{"task_type": "echo", "parameters": {"n": number}} for number in range(10_000)]
    answer = await site.post(BATCH, {"tasks": tasks})
    assert len({item["id"] for item in answer.json["tasks"]}) == 10_000
    assert await total(site) == 10_000


async def test_a_batch_under_the_same_key_is_answered_again(site: Site) -> None:
    body = {"tasks": [{"task_type": "echo"}] * 3}
    first = await site.post(BATCH, body, headers={"Idempotency-Key": "k"})
    again = await site.post(BATCH, body, headers={"Idempotency-Key": "k"})
    assert first.json == again.json
    other = await site.post(BATCH, {"tasks": [{"task_type": "echo"}] * 2}, headers={"Idempotency-Key": "k"})
    assert other.told == (422, "idempotency_mismatch", "Idempotency-Key")
    assert await total(site) == 3


async def test_who_submitted_is_in_the_audit_log(site: Site) -> None:
    first = (await site.post(TASKS, {"task_type": "echo", "parameters": {}})).json["id"]
    for _ in range(3):
        await site.post(BATCH, {"tasks": [{"task_type": "echo", "parameters": {}}] * 5})
    refused = await site.post(TASKS, {"task_type": "nobody runs this", "parameters": {}})
    assert refused.status == 422

    async def noted() -> list[dict[str, Any]]:
        entries = (await site.get("/api/v1/audit")).json["entries"]
        return [entry for entry in entries if entry["action"] == "task.submit"]

    async def all_noted() -> bool:
        return bool(sum(entry["details"]["tasks"] for entry in await noted()) >= 16)

    await site.until(all_noted)
    found = await noted()
    assert found[-1]["target"] == first
    assert {entry["role"] for entry in found} == {"admin"}
    assert sum(entry["details"]["tasks"] for entry in found) == 16
    assert len(found) <= 3, "a line a second, not one for every call"


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"schedule_strategy": "least_loadd"}, "schedule_strategy", "least_loaded"),
        ({"cluster": "nowhere"}, "cluster", "default"),
        ({"retry": {"base_delay_s": 20, "max_delay_s": 10}}, "retry.base_delay_s", "longer than retry.max_delay_s"),
        ({"capabilities": {"proxies": -1}}, "capabilities.proxies", "0 or more"),
    ],
)
async def test_what_can_only_be_a_mistake_is_refused(site: Site, fields: dict[str, Any], field: str, said: str) -> None:
    refused = await site.post(TASKS, {"task_type": "echo", **fields})
    assert (refused.status, refused.json["field"]) == (422, field)
    assert said in refused.json["detail"]
    tasks = [{"task_type": "echo"}, {"task_type": "echo", **fields}]
    good, wrong = (await site.post(BATCH, {"tasks": tasks, "mode": "each"})).json["tasks"]
    assert "id" in good
    assert wrong["error"]["field"] == field


async def test_a_cluster_is_known_from_the_moment_that_it_is_made(site: Site) -> None:
    assert (await site.post(TASKS, {"task_type": "echo", "cluster": "eu"})).status == 422
    await site.send("PUT", "/api/v1/clusters/eu", {})
    assert (await site.post(TASKS, {"task_type": "echo", "cluster": "eu"})).status == 201
