"""A node that leaves with work running while tasks wait: nothing is placed on it, and nothing bounces."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client._generated.models import NodeView
from tests.processes.fleet import Fleet, echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

USER = ("--executors", "tests.integration.execution.executors.user_executors")
WATCHED_S = 3.0
"""Enough for hundreds of bounces, if there were any."""


async def test_nothing_is_placed_on_a_node_that_leaves(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(*USER, workers=1, slots=4)
        held = await running.submit([_held(tmp_path, 0)])
        await running.until((tmp_path / "started-0").exists, "the held task has not started")
        running.workers[0].signal(signal.SIGTERM)
        await running.until(lambda: _has_status(running, "worker-0", "maintenance"), "it does not show that it leaves")
        waiting = await running.submit([echo(number) for number in range(20)])
        await asyncio.sleep(WATCHED_S)

        assert [len(await running.client.executions(task)) for task in waiting] == [0] * 20
        assert (await _node(running, "worker-0")).slots == 0
        why = await running.client.why(waiting[0])
        assert why.sentence == "0 of 1 node: 1 leaving"
        assert why.data["placement"]["refusals"] == {"node_leaving": 1}

        (tmp_path / "released-0").touch()
        await running.until(lambda: _has_status(running, "worker-0", "offline"), "it has not left")
        assert (await running.client.get(held[0])).status == "completed"
        assert await running.workers[0].child.wait() == 0
        # The same node, started again, is online and takes what waited.
        await running.start_worker("worker-0", *USER, slots=4)
        await running.until_status(waiting, "completed")
        assert [len(await running.client.executions(task)) for task in waiting] == [1] * 20
        assert len(await running.client.nodes()) == 1
        assert await running.verdict() == []


async def test_nodes_that_leave_one_after_the_other_place_nothing_on_each_other(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(*USER, workers=3, slots=1)
        held = await running.submit([_held(tmp_path, number) for number in range(3)])
        for number in range(3):
            await running.until((tmp_path / f"started-{number}").exists, f"held task {number} has not started")
        waiting = await running.submit([echo(number) for number in range(10)])
        for worker in list(running.workers):
            worker.signal(signal.SIGTERM)
            await running.until(lambda name=worker.name: _has_status(running, name, "maintenance"), "it is not shown")  # type: ignore[misc]
        await asyncio.sleep(1)
        assert [len(await running.client.executions(task)) for task in waiting] == [0] * 10
        assert (await running.client.why(waiting[0])).sentence == "0 of 3 nodes: 3 leaving"
        for number in range(3):
            (tmp_path / f"released-{number}").touch()
        for worker in list(running.workers):
            assert await worker.child.wait() == 0
        assert {(await running.client.get(task)).status for task in held} == {"completed"}
        assert {(await running.client.get(task)).status for task in waiting} == {"pending"}
        await running.start_worker("worker-0", *USER, slots=1)
        await running.until_status(waiting, "completed")
        assert [len(await running.client.executions(task)) for task in waiting] == [1] * 10
        assert await running.verdict() == []


async def test_a_node_that_a_person_holds_stays_held_when_it_leaves_and_comes_back(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(*USER, workers=1, slots=4)
        await running.submit([_held(tmp_path, 0)])
        await running.until((tmp_path / "started-0").exists, "the held task has not started")
        node = await _node(running, "worker-0")
        await running.client.drain(node.id)
        running.workers[0].signal(signal.SIGTERM)
        waiting = await running.submit([echo(1)])
        await running.until(lambda: _is_why(running, waiting[0], "0 of 1 node: 1 leaving"), "it is not told to leave")
        # A person lets it go while it leaves: it takes nothing all the same.
        await running.client.ready(node.id)
        await asyncio.sleep(1)
        assert (await _node(running, "worker-0")).status == "maintenance"
        assert await running.client.executions(waiting[0]) == []
        await running.client.drain(node.id)
        (tmp_path / "released-0").touch()
        assert await running.workers[0].child.wait() == 0
        await running.start_worker("worker-0", *USER, slots=4)
        await running.until(lambda: _is_why(running, waiting[0], "0 of 1 node: 1 in maintenance"), "it is not back")
        await running.client.ready(node.id)
        await running.until_status(waiting, "completed")
        assert len(await running.client.executions(waiting[0])) == 1
        assert await running.verdict() == []


def _held(folder: Path, number: int) -> dict[str, Any]:
    files = {"started": str(folder / f"started-{number}"), "released": str(folder / f"released-{number}")}
    return {"task_type": "waits_for_file", "parameters": files}


async def _node(running: Fleet, name: str) -> NodeView:
    (found,) = [node for node in await running.client.nodes() if node.name == name]
    return found


async def _has_status(running: Fleet, name: str, status: str) -> bool:
    return (await _node(running, name)).status == status


async def _is_why(running: Fleet, task: str, sentence: str) -> bool:
    return (await running.client.why(task)).sentence == sentence
