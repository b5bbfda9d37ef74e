"""Another server at the master's address for a while: nodes wait, keep their work, and come back by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.processes.fleet import Fleet, echo, fleet
from tests.processes.foreign_server import FOREIGN, foreign_server

pytestmark = [pytest.mark.integration, pytest.mark.slow]

USER = ("--executors", "tests.integration.execution.executors.user_executors")


async def test_a_moment_of_another_server_costs_no_work(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        async with foreign_server(running.client.url) as foreign:
            worker = await running.start_worker("worker-0", *USER, masters=[foreign.url])
            await running.until_online(1)
            files = {"started": str(tmp_path / "started"), "released": str(tmp_path / "released")}
            ids = await running.submit([{"task_type": "waits_for_file", "parameters": files}])
            await running.until((tmp_path / "started").exists, "the task has not started")
            for said in FOREIGN.values():
                foreign.become(said)
                await running.until(lambda: foreign.answered >= 2, "the node does not ask")
                foreign.become(None)
                seen = (await running.client.nodes())[0].last_seen_at
                await running.until(lambda seen=seen: _is_seen_after(running, seen), "the node does not come back")  # type: ignore[misc]
            (tmp_path / "released").touch()
            await running.until_status(ids, "completed")
            assert len(await running.client.executions(ids[0])) == 1
            assert worker.child.returncode is None
            assert worker.log.read_text().count("session_opened") == 1
        await worker.kill()


@pytest.mark.parametrize("said", ["404", "401", "HTML"])
async def test_a_node_comes_back_from_another_server_that_stays_beyond_its_lease(tmp_path: Path, said: str) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        async with foreign_server(running.client.url) as foreign:
            worker = await running.start_worker("worker-0", *USER, masters=[foreign.url])
            await running.until_online(1)
            foreign.become(FOREIGN[said])
            await running.until(lambda: _is_unresponsive(running), "the node keeps its lease")
            assert worker.child.returncode is None, worker.log.read_text()
            foreign.become(None)
            ids = await running.submit([echo(1)])
            await running.until_status(ids, "completed")
            assert len(await running.client.nodes()) == 1
            assert "is there another server" in worker.log.read_text()
        await worker.kill()


async def test_what_a_task_streams_waits_until_the_master_is_back(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        async with foreign_server(running.client.url) as foreign:
            worker = await running.start_worker("worker-0", *USER, masters=[foreign.url])
            await running.until_online(1)
            values = list(range(30))
            ids = await running.submit([{"task_type": "spell", "parameters": {"values": values, "pause_s": 0.1}}])
            await running.until_status(ids, "processing")
            foreign.become(FOREIGN["404"])
            await running.until(lambda: foreign.answered >= 5, "the node does not ask")
            foreign.become(None)
            await running.until_status(ids, "completed")
            assert [item["value"] async for item in running.client.results(ids[0])] == values
            assert len(await running.client.executions(ids[0])) == 1
        await worker.kill()


async def test_a_node_that_joins_waits_for_a_master_to_answer(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        async with foreign_server(running.client.url) as foreign:
            foreign.become(FOREIGN["404"])
            worker = await running.start_worker("worker-0", masters=[foreign.url])
            await running.until(lambda: foreign.answered >= 3, "the node does not ask")
            assert worker.child.returncode is None, worker.log.read_text()
            foreign.become(None)
            await running.until_online(1)
        await worker.kill()


async def test_a_node_that_was_removed_leaves_after_a_while(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(workers=1)
        (node,) = await running.client.nodes()
        await running.client.remove_node(node.id)
        assert await asyncio.wait_for(running.workers[0].child.wait(), 90) == 3


async def _is_seen_after(running: Fleet, seen: str | None) -> bool:
    return (await running.client.nodes())[0].last_seen_at != seen


async def _is_unresponsive(running: Fleet) -> bool:
    return (await running.client.nodes())[0].status == "unresponsive"
