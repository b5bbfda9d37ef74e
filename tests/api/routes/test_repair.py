"""Repairs by the API: for admins, without a change of any task."""

from __future__ import annotations

import pytest

from crawlfleet.store.store import SqlStore
from tests.api.kit import Site


async def test_counters_are_compared_and_corrected(site: Site) -> None:
    task = await site.submit(project_id="shop", min_resources={"nobody-has": 1})
    sound = {"applied": False, "wrong_counters": 0, "drift": 0, "counters": []}
    assert (await site.post("/api/v1/repair/counters", {})).json == sound
    store = site.store
    assert isinstance(store, SqlStore)
    lane = (await store.ready_lanes())[0]
    await store.correct_counters({lane: {next(iter(await store.task_totals())): 4}}, site.master.clock.now())
    told = (await site.post("/api/v1/repair/counters", {})).json
    assert (told["wrong_counters"], told["drift"]) == (1, 4)
    (drift,) = told["counters"]
    assert (drift["project_id"], drift["task_type"], drift["missing"]) == ("shop", "echo", -4)
    assert (await site.post("/api/v1/repair/counters", {"apply": True})).json == {**told, "applied": True}
    assert (await site.post("/api/v1/repair/counters", {})).json == sound
    assert (await site.get("/api/v1/tasks:stats")).json["total"] == 1
    assert (await site.task(task))["status"] == "pending"
    entries = (await site.get("/api/v1/audit")).json["entries"]
    assert [entry["target"] for entry in entries if entry["action"] == "repair"] == ["counters"]


async def test_the_ready_index_is_filled_again_from_the_store(site: Site) -> None:
    await site.submit(min_resources={"nobody-has": 1})
    index = site.master.broker.ready_index

    async def has_windows() -> bool:
        return any(window.size for window in await index.list_windows())

    await site.until(has_windows)
    assert (await site.post("/api/v1/repair/ready")).json == {"windows": 1, "lanes": 1}
    await site.until(has_windows)


async def test_results_that_are_whole_lack_nothing(site: Site) -> None:
    answer = (await site.post("/api/v1/repair/results", {})).json
    assert answer == {"looked_at": 0, "missing": [], "next_cursor": None}
    assert (await site.post("/api/v1/repair/results", {"cursor": "x"})).told == (422, "invalid_input", "cursor")


@pytest.mark.parametrize("path", ["counters", "ready", "results"])
async def test_only_admins_repair(site: Site, path: str) -> None:
    for role, status in (("operator", 403), ("viewer", 403), (None, 401)):
        assert (await site.post(f"/api/v1/repair/{path}", {}, role=role)).status == status
