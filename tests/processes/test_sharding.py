"""A list split over real workers, one of which is killed: what they found together is what one alone finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testkit.patience import PATIENCE_S
from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

VALUES = [f"value {number}" for number in range(48)]
SHARD = 4
HELD = VALUES[-SHARD * 4 :: SHARD]
"""The first of each of the last four shards: as many as there are slots."""


async def test_a_list_sharded_over_two_workers_one_of_them_killed_is_merged_as_if_it_were_one(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start("--executors", "tests.integration.execution.executors.user_executors", workers=2, slots=2)
        alone = await running.client.shard("spell", {"values": VALUES}, over="values", count=1)
        await running.client.wait_group(alone.id, PATIENCE_S)
        expected = await exported(running, alone.id)
        assert [json.loads(line)["value"] for line in expected.splitlines()] == VALUES

        go_on = tmp_path / "go-on"
        parameters = {"values": VALUES, "held": HELD, "file": str(go_on)}
        group = await running.client.shard("spell", parameters, over="values", size=SHARD)
        await running.until(lambda: _is_under_way(running, group.id), "no shard ended")
        await running.workers[0].kill()
        go_on.touch()
        ended = await running.client.wait_group(group.id, PATIENCE_S)
        assert (ended.is_complete, ended.progress.completed) == (True, 12)
        assert await exported(running, group.id) == expected
        items = [item["value"] async for item in running.client.group_items(group.id)]
        assert items == VALUES
        lost = [task.losses async for task in running.client.list(group=group.id)]
        assert sum(lost) > 0, "nothing ran on the worker that was killed"
        running.note([task.id async for task in running.client.list(group=group.id)])
        assert await running.verdict() == []


async def exported(running: Fleet, group: str) -> bytes:
    return b"".join([data async for data in running.client.export_group(group)])


async def _is_under_way(running: Fleet, group: str) -> bool:
    """Some shards have ended, and both workers hold others."""
    tasks = [task async for task in running.client.list(group=group)]
    nodes = {task.assigned_node for task in tasks if task.status == "processing"}
    return len(nodes) == 2 and any(task.status == "completed" for task in tasks)
