"""Clean-up by the API: counted first, removed in batches, for admins, with an entry in the audit log."""

from typing import Any

import pytest

from crawlfleet.control.nodes import departed_nodes
from crawlfleet.control.results import clean_up
from crawlfleet.model.ids import parse_id
from crawlfleet.model.status import NodeStatus
from tests.api.kit import Site, Worker

ALL = {"older_than_s": 0}


async def cancelled(site: Site, count: int, **fields: Any) -> list[str]:
    tasks = [await site.submit(min_resources={"nobody-has": 1}, **fields) for _ in range(count)]
    for task in tasks:
        assert (await site.post(f"/api/v1/tasks/{task}:cancel")).status < 300
        await site.until_status(task, "cancelled")
    return tasks


async def actions(site: Site) -> list[tuple[str, str]]:
    entries = (await site.get("/api/v1/audit")).json["entries"]
    return [(entry["action"], entry["target"]) for entry in entries if entry["action"] == "clean_up"]


async def test_tasks_are_counted_then_removed_and_the_rest_stays(site: Site) -> None:
    gone = await cancelled(site, 2, project_id="shop")
    (stays,) = await cancelled(site, 1)
    wanted = {**ALL, "project_id": "shop", "status": ["cancelled"]}
    counted = (await site.post("/api/v1/clean-up/tasks", wanted)).json
    assert counted == {
        "applied": False,
        "looked_at": 3,
        "selected": 2,
        "needed": 0,
        "removed": 0,
        "next_cursor": None,
    }
    assert await actions(site) == []
    removed = (await site.post("/api/v1/clean-up/tasks", {**wanted, "apply": True})).json
    assert removed == {**counted, "applied": True, "removed": 2}
    for task in gone:
        assert (await site.get(f"/api/v1/tasks/{task}")).status == 404
    assert (await site.task(stays))["status"] == "cancelled"
    assert await actions(site) == [("clean_up", "tasks")]


async def test_a_young_task_stays_and_batches_go_on_where_the_last_one_ended(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cancelled(site, 3)
    assert (await site.post("/api/v1/clean-up/tasks", {"older_than_s": 3_600})).json["selected"] == 0
    monkeypatch.setattr(clean_up, "BATCH", 2)
    first = (await site.post("/api/v1/clean-up/tasks", {**ALL, "apply": True})).json
    assert (first["removed"], first["next_cursor"] is not None) == (2, True)
    second = (await site.post("/api/v1/clean-up/tasks", {**ALL, "apply": True, "cursor": first["next_cursor"]})).json
    assert (second["removed"], second["next_cursor"]) == (1, None)


async def test_files_without_a_task_are_removed_and_others_stay(site: Site) -> None:
    task = await site.submit(min_resources={"nobody-has": 1})
    chunks = site.master.chunks
    await chunks.put(parse_id(task, "task", field="id"), 7, "items", 0, b"{}\n")
    await chunks.put(0x1122334455667788, 7, "items", 0, b"{}\n")
    counted = (await site.post("/api/v1/clean-up/results", {})).json
    assert (counted["files"], counted["orphans"], counted["orphan_files"], counted["removed"]) == (2, 1, 1, 0)
    assert counted["examples"] == ["task-1122334455667788"]
    assert counted["orphan_bytes"] > 0
    assert (await site.post("/api/v1/clean-up/results", {"apply": True})).json["removed"] == 1
    end = (await site.post("/api/v1/clean-up/results", {"cursor": counted["next_cursor"]})).json
    assert (end["files"], end["next_cursor"]) == (0, None)
    assert await chunks.read(0x1122334455667788, 7, "items", 0) is None
    assert await chunks.read(parse_id(task, "task", field="id"), 7, "items", 0) == b"{}\n"


async def test_nodes_that_are_gone_for_long_are_removed(
    site: Site, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await site.post("/api/v1/clean-up/nodes", {"gone_for_s": 60})).json["nodes"] == []
    (node,) = (await site.get("/api/v1/nodes")).json["nodes"]
    # As if the node had been silent for as long: the clock of the test site is that of the machine.
    monkeypatch.setattr(departed_nodes, "last_seen", lambda _node: 0)
    monkeypatch.setattr(departed_nodes, "AWAY", tuple(NodeStatus))
    counted = (await site.post("/api/v1/clean-up/nodes", {"gone_for_s": 60})).json
    assert ([gone["id"] for gone in counted["nodes"]], counted["removed"]) == ([node["id"]], 0)
    assert (await site.post("/api/v1/clean-up/nodes", {"gone_for_s": 60, "apply": True})).json["removed"] == 1
    assert (await site.get("/api/v1/nodes")).json["nodes"] == []
    assert await actions(site) == [("clean_up", "nodes")]


async def test_retention_is_counted_and_applied_by_a_trusted_clock(site: Site) -> None:
    assert (await site.post("/api/v1/clean-up/retention", {})).told == (409, "conflict", None)
    term = (await site.store.read_leader()).term
    await site.store.set_clock_mark(term, site.master.clock.now())
    counted = (await site.post("/api/v1/clean-up/retention", {})).json
    assert (counted["due"]["tasks"], counted["removed_rows"], counted["next_cursor"]) == (0, 0, None)
    applied = (await site.post("/api/v1/clean-up/retention", {"apply": True})).json
    assert (applied["applied"], applied["next_cursor"]) == (True, None)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("tasks", {}, "older_than_s"),
        ("tasks", {"older_than_s": -1}, "older_than_s"),
        ("tasks", {"older_than_s": 1e300}, "older_than_s"),
        ("tasks", {**ALL, "status": ["pending"]}, "status[0]"),
        ("tasks", {**ALL, "status": []}, "status"),
        ("tasks", {**ALL, "cursor": "nonsense"}, "cursor"),
        ("tasks", {**ALL, "aply": True}, "aply"),
        ("retention", {"cursor": "task-1"}, "cursor"),
        ("results", {"cursor": "x" * 201}, "cursor"),
        ("nodes", {"gone_for_s": 1}, "gone_for_s"),
    ],
)
async def test_bad_input_is_named_and_removes_nothing(site: Site, path: str, body: dict[str, Any], field: str) -> None:
    answer = await site.post(f"/api/v1/clean-up/{path}", {"apply": True, **body})
    assert answer.told == (422, "invalid_input", field)


@pytest.mark.parametrize("path", ["retention", "tasks", "results", "nodes"])
async def test_only_admins_clean_up(site: Site, path: str) -> None:
    for role, status in (("operator", 403), ("viewer", 403), (None, 401)):
        assert (await site.post(f"/api/v1/clean-up/{path}", ALL if path == "tasks" else {}, role=role)).status == status


async def test_the_sizes_of_the_queues_are_those_of_the_priority_classes(site: Site) -> None:
    for priority, count in ((10, 1), (5, 2), (1, 3)):
        for _ in range(count):
            await site.submit(priority=priority, min_resources={"nobody-has": 1})

    async def are_counted() -> bool:
        sizes = (await site.get("/api/v1/queues:sizes", role="viewer")).json
        return bool(sizes == {"high": 1, "normal": 2, "low": 3, "retry": 0})

    await site.until(are_counted)
