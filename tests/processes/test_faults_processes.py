"""The faults that need real processes: killed, stopped, restarted, full. The checker judges what is left."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from testkit.patience import PATIENCE_S, promised
from tests.processes.fleet import Fleet, echo, fleet, sleep
from tests.processes.held_pages import ALLOW, held_site, held_tasks, lift_budgets

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def test_a_killed_worker_costs_no_task_and_doubles_none(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW, slots=16)
        await lift_budgets(running)
        held = await running.submit(held_tasks(site, range(1, 33)))
        await site.wait_held(32)
        # Both workers are full, and these wait.
        await running.submit([sleep(0.005)] * 2_000)
        await running.workers[0].kill()
        await site.release()
        stats = await running.until_final(2_032)
        assert stats["completed"] == 2_032
        views = [await running.client.get(task) for task in held]
        # On a machine without a free core the other worker may lose a process besides, which costs no retry either.
        assert sum(1 for view in views if view.losses) >= 16
        assert {view.retry_count for view in views} == {0}
        assert await running.verdict() == []


async def test_the_executions_of_a_killed_node_say_which_node_died(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(workers=1, slots=16)
        ids = await running.submit([sleep(600)] * 16)
        await running.until_status(ids, "processing")
        (dead,) = await running.client.nodes()
        await running.start_worker("other", slots=16)
        await running.until_online(2)
        await running.workers[0].kill()
        # Nine seconds of lease, and what else is promised: fifteen from the kill to running elsewhere.
        await running.until(lambda: _moved(running, ids, dead.id), "not all run elsewhere", within_s=promised(15))
        first, *_ = await running.client.executions(ids[0])
        assert (first.status, first.node_id) == ("lost", dead.id)
        await running.client.cancel_many(ids=ids)
        await running.until_final(16)
        assert await running.verdict() == []


async def test_a_worker_stopped_beyond_its_lease_is_stale_when_it_wakes(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW, workers=1, slots=4)
        await lift_budgets(running)
        ids = await running.submit(held_tasks(site, range(1, 5)))
        await site.wait_held(4)
        await running.start_worker("other", *ALLOW, slots=4)
        await running.until_online(2)
        for one in running.workers[0].tree():
            one.suspend()
        (stopped,) = [node for node in await running.client.nodes() if node.name == "worker-0"]
        await running.until(lambda: _moved(running, ids, stopped.id), "not all run elsewhere", within_s=promised(15))
        for one in running.workers[0].tree():
            one.resume()
        # It wakes up with pages that come for what is not its own any more.
        await site.release()
        stats = await running.until_final(4)
        assert stats["completed"] == 4
        for task in ids:
            ended = [(one.status, one.node_id == stopped.id) for one in await running.client.executions(task)]
            assert ended == [("lost", True), ("completed", False)]
        assert await running.verdict() == []


async def test_a_worker_that_dies_three_times_is_the_same_node_and_its_tasks_are_innocent(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW, workers=1, slots=16)
        await lift_budgets(running)
        (before,) = await running.client.nodes()
        ids = await running.submit(held_tasks(site, range(1, 17)))
        for losses in range(3):
            await running.until(lambda losses=losses: _run_after(running, ids, losses), "not all are running")  # type: ignore[misc]
            await running.workers[-1].kill()
            await running.start_worker("worker-0", *ALLOW, slots=16)
        await site.release()
        stats = await running.until_final(16)
        assert stats["completed"] == 16
        assert [node.id for node in await running.client.nodes()] == [before.id]
        for task in ids:
            view = await running.client.get(task)
            # After two losses each ran in a process of its own, which a dying node does not count against it.
            assert (view.losses, view.retry_count) == (3, 0)
        assert await running.verdict() == []


async def test_a_restarted_master_goes_on_where_it_was(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW)
        await lift_budgets(running)
        port = int(running.client.url.rpartition(":")[2])
        await running.submit([*held_tasks(site, range(1, 9)), *[sleep(0.05)] * 500])
        # Held over all restarts, so that each finds work under way.
        await site.wait_held(8)
        for _ in range(3):
            await running.master.kill()
            await running.client.close()
            await running.start_master(port=port)
        await site.release()
        stats = await running.until_final(508)
        assert stats["completed"] == 508
        assert await running.verdict() == []


async def test_cancel_ends_the_work_and_its_processes(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        await running.start_worker("worker-0", "--executors", "tests.integration.execution.executors.user_executors")
        await running.until_online(1)
        family = tmp_path / "family"
        family.mkdir()
        ids = await running.submit([{"task_type": "family", "parameters": {"folder": str(family), "then": "wait"}}])
        await running.until((family / "self").exists, "it has not started its children")
        await running.until(lambda: all(file.read_text() for file in family.iterdir()), "not all have told their ids")
        pids = [int(file.read_text()) for file in family.iterdir()]
        assert all(psutil.pid_exists(pid) for pid in pids)
        await running.client.cancel(ids[0])
        await running.until_final(1)
        assert (await running.client.get(ids[0])).status == "cancelled"
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        assert await running.verdict() == []


async def test_a_full_queue_refuses_and_takes_again(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        await running.client.put_config({"max_waiting": 100})
        await running.submit([echo(n) for n in range(100)])
        await running.until(lambda: _is_refused(running), "it takes more than it may")
        await running.start_worker("worker-0")
        await running.until_final(100)
        await running.until(lambda: _takes(running), "it takes nothing again")
        await running.until_final((await running.client.stats()).total)
        assert await running.verdict() == []


async def test_a_thousand_tasks_at_once_all_finish(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(slots=64)
        answers = await asyncio.gather(*(running.client.submit("echo", {"n": n}) for n in range(1_000)))
        assert len({task.id for task in answers}) == 1_000
        stats = await running.until_final(1_000)
        assert stats["completed"] == 1_000
        assert await running.verdict() == []


async def test_sigterm_lets_work_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW, workers=1)
        await lift_budgets(running)
        await running.submit(held_tasks(site, range(1, 5)))
        await site.wait_held(4)
        tree = [one.pid for one in running.workers[0].tree()]
        (worker,) = running.workers
        worker.signal(signal.SIGTERM)
        await running.until(lambda: "drain_began" in worker.log.read_text(), "it does not drain")
        await site.release()
        async with asyncio.timeout(PATIENCE_S):
            assert await worker.child.wait() == 0
        stats = await running.until_final(4)
        assert stats["completed"] == 4
        assert not [pid for pid in tree if psutil.pid_exists(pid)]
        (node,) = await running.client.nodes()
        assert node.status == "offline"
        assert await running.verdict() == []


async def _run_after(running: Fleet, ids: list[str], losses: int) -> bool:
    tasks = [await running.client.get(task) for task in ids]
    return all((task.status, task.losses) == ("processing", losses) for task in tasks)


async def _moved(running: Fleet, ids: list[str], away_from: str) -> bool:
    tasks = [await running.client.get(task) for task in ids]
    return all(task.status == "processing" and task.assigned_node not in (None, away_from) for task in tasks)


async def _is_refused(running: Fleet) -> bool:
    answer = await running.call("POST", "/api/v1/tasks", json=echo(0))
    return answer.status == 429 and int(answer.headers["Retry-After"]) > 0


async def _takes(running: Fleet) -> bool:
    return (await running.call("POST", "/api/v1/tasks", json=echo(0))).status == 201
