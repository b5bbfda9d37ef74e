"""What members left, read as one: in their order, whatever order they ended in and however often they were tried."""

import json
from typing import Any

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.ids import task_text
from crawlfleet.wire.sync import AssignmentBody
from tests.api.kit import Site, Worker
from tests.api.remote_node import RemoteNode

GROUPS = "/api/v1/groups"


def lines(values: list[int]) -> bytes:
    return b"".join(b'{"n":%d}\n' % value for value in values)


async def sharded(site: Site, values: int, **shard: int) -> str:
    task = {"task_type": "echo", "parameters": {"values": list(range(values))}}
    answer = await site.post(GROUPS, {"task": task, "shard": {"over": "values", **shard}})
    assert answer.status == 201, answer.content
    found: str = answer.json["id"]
    return found


async def taken(node: RemoteNode, count: int) -> list[AssignmentBody]:
    """Shards in order."""
    found: list[AssignmentBody] = []
    while len(found) < count:
        found += (await node.sync(wait_ms=2_000)).assignments
    node.held += [one.execution for one in found]
    return sorted(found, key=lambda one: one.task)


async def leave(node: RemoteNode, one: AssignmentBody, end: End = End.COMPLETED) -> None:
    """An item for each value it was given, in two chunks."""
    values = json.loads(bytes(one.parameters))["values"]
    for number, part in enumerate((values[:2], values[2:])):
        assert (await node.put(one, "items", number, lines(part))).status == 204
    await node.finish(one, {"items": len(values), "item_chunks": 2}, end)


async def merged(site: Site, group: str, query: str = "") -> list[int]:
    answer = await site.get(f"{GROUPS}/{group}/results:download{query}", role="viewer")
    assert answer.status == 200, answer.content
    return [json.loads(line)["n"] for line in answer.content.splitlines()]


async def paged(site: Site, group: str, limit: int, query: str = "") -> list[int]:
    found: list[int] = []
    cursor = ""
    while True:
        page = (await site.get(f"{GROUPS}/{group}/results?limit={limit}{cursor}{query}", role="viewer")).json
        assert len(page["items"]) <= limit
        found += [item["n"] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
async def test_items_are_merged_in_the_order_of_shards(site: Site, order: tuple[int, ...]) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 11, size=4)
    shards = await taken(node, 3)
    for at in order:
        await leave(node, shards[at])
    assert await merged(site, group) == list(range(11))
    for limit in (1, 2, 3, 100):
        assert await paged(site, group, limit) == list(range(11))


async def test_a_group_with_a_failed_shard_says_so(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 6, size=2)
    shards = await taken(node, 3)
    await leave(node, shards[2])
    await leave(node, shards[1], End.FAILED)
    await leave(node, shards[0])
    for path in ("results", "results:download"):
        answer = await site.get(f"{GROUPS}/{group}/{path}")
        assert answer.told[:2] == (409, "group_incomplete")
        assert {name: answer.json["progress"][name] for name in ("total", "completed", "failed")} == {
            "total": 3,
            "completed": 2,
            "failed": 1,
        }
    answer = await site.get(f"{GROUPS}/{group}/results:download?partial=true")
    assert answer.headers["Group-Complete"] == "false"
    assert answer.headers["Group-Members"] == "total=3 open=0 completed=2 failed=1 timeout=0 cancelled=0"
    assert await merged(site, group, "?partial=true") == [0, 1, 4, 5]
    assert await paged(site, group, 3, "&partial=true") == [0, 1, 4, 5]
    page = (await site.get(f"{GROUPS}/{group}/results?partial=true")).json
    assert page["is_complete"] is False


async def test_a_shard_that_was_retried_is_in_its_place_once(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 6, size=2)
    shards = await taken(node, 3)
    for at, end in ((1, End.FAILED), (2, End.COMPLETED), (0, End.COMPLETED)):
        await leave(node, shards[at], end)
    assert (await site.post(f"{GROUPS}/{group}:retry")).json["changed"] == 1
    assert (await site.get(f"{GROUPS}/{group}/results")).told[:2] == (409, "group_incomplete")
    (again,) = await taken(node, 1)
    assert again.task == shards[1].task
    await leave(node, again)
    answer = await site.get(f"{GROUPS}/{group}/results:download")
    assert answer.headers["Group-Complete"] == "true"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{group}.jsonl"'
    assert await merged(site, group) == list(range(6))
    assert await paged(site, group, 4) == list(range(6))


async def test_a_page_within_a_shard_that_was_tried_again_is_refused(site: Site) -> None:
    node = await RemoteNode.online(site)
    group = await sharded(site, 4, size=4)
    (one,) = await taken(node, 1)
    await leave(node, one)
    cursor = (await site.get(f"{GROUPS}/{group}/results?limit=3")).json["next_cursor"]
    await site.post(f"/api/v1/tasks/{task_text(one.task)}:retry")
    path = f"{GROUPS}/{group}/results?partial=true&cursor={cursor}"
    assert (await site.get(path)).told == (422, "invalid_input", "cursor")
    (again,) = await taken(node, 1)
    await leave(node, again)
    assert (await site.get(path)).told == (422, "invalid_input", "cursor")
    assert await paged(site, group, 3) == list(range(4))


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "task-1",
        "task-0000000000000001.x",
        "task-0000000000000001.exec-0000000000000001",
        "task-0000000000000001.exec-0000000000000001.a.b",
        "exec-0000000000000001.0.0",
    ],
)
async def test_a_cursor_that_is_none_is_refused(site: Site, cursor: str) -> None:
    group = await sharded(site, 4, size=4)
    answer = await site.get(f"{GROUPS}/{group}/results?partial=true&cursor={cursor}")
    assert answer.told == (422, "invalid_input", "cursor")


async def test_a_group_that_left_nothing_has_no_items(site: Site, worker: Worker) -> None:
    group = await sharded(site, 4, size=1)

    async def is_complete() -> bool:
        return bool((await site.get(f"{GROUPS}/{group}")).json["is_complete"])

    await site.until(is_complete)
    assert await merged(site, group) == []
    assert await paged(site, group, 10) == []


async def test_results_of_members_are_a_list_in_order(site: Site, worker: Worker) -> None:
    tasks: list[Any] = [{"n": 0}, {"fail": "no", "permanent": True}, {"n": 2}]
    body = {"tasks": [{"task_type": "echo", "parameters": one} for one in tasks]}
    group = (await site.post(GROUPS, body)).json["id"]

    async def is_finished() -> bool:
        return bool((await site.get(f"{GROUPS}/{group}")).json["is_finished"])

    await site.until(is_finished)
    first = (await site.get(f"{GROUPS}/{group}/outcomes?limit=2", role="viewer")).json
    assert [(one["status"], one["result"]) for one in first["outcomes"]] == [("completed", {"n": 0}), ("failed", None)]
    rest = (await site.get(f"{GROUPS}/{group}/outcomes?limit=2&cursor={first['next_cursor']}")).json
    assert [one["result"] for one in rest["outcomes"]] == [{"n": 2}]
    assert rest["next_cursor"] is None
    assert rest["outcomes"][0]["execution_id"].startswith("exec-")
