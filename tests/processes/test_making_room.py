"""Real processes: urgent work takes the place of what may wait, and new nodes and slots get work at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testkit.patience import promised
from tests.processes.fleet import fleet, sleep
from tests.processes.held_pages import ALLOW, held_site, held_tasks, lift_budgets

pytestmark = [pytest.mark.integration, pytest.mark.slow]

AT_ONCE_S = 3.0
PATIENT: dict[str, Any] = {"priority": 1, "preemptible": True}


async def test_an_urgent_task_runs_within_seconds_and_the_one_that_made_room_completes_later(tmp_path: Path) -> None:
    async with held_site() as site, fleet(tmp_path) as running:
        await running.start(*ALLOW, workers=1, slots=2)
        await lift_budgets(running)
        # They hold all slots until the site lets them end.
        low = await running.submit(held_tasks(site, (1, 2), **PATIENT))
        await site.wait_held(2)
        (urgent,) = await running.submit([sleep(0.2) | {"priority": 10}])
        await running.until_status([urgent], "completed")
        ended = {task: await running.client.executions(task) for task in low}
        (victim,) = [task for task, runs in ended.items() if any(run.status == "preempted" for run in runs)]
        await running.until_status([victim], "processing")
        await site.release()
        await running.until_status(low, "completed")
        shown = await running.client.get(victim)
        assert (shown.retry_count, shown.losses, shown.preemptible) == (0, 0, True)
        assert [run.status for run in await running.client.executions(victim)] == ["preempted", "completed"]
        (told,) = (await running.client.event_page(kinds=["task.recalled"])).events
        assert told.data["reason"] == f"makes room for {urgent}"
        assert await running.verdict() == []


async def test_a_node_that_joins_and_slots_that_are_raised_get_waiting_work_at_once(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(workers=1, slots=2)
        tasks = await running.submit([sleep(600)] * 12)

        async def run_on(name: str) -> int:
            return next((node.running for node in await running.client.nodes() if node.name == name), 0)

        async def has(name: str, count: int) -> bool:
            return await run_on(name) == count

        await running.until(lambda: has("worker-0", 2), "the first node is not full")
        await running.start_worker("worker-1", slots=4)
        await running.until_online(2)
        await running.until(lambda: has("worker-1", 4), "the new node has no work", promised(AT_ONCE_S))
        code, said = await running.run(
            "slots",
            "node",
            "slots",
            "worker-0",
            "5",
            "--json",
            env={"CRAWLFLEET_URL": running.client.url, "CRAWLFLEET_TOKEN": running.admin},
        )
        assert code == 0, said
        await running.until(lambda: has("worker-0", 5), "the new slots are empty", promised(AT_ONCE_S))
        assert await run_on("worker-1") == 4, "nothing was moved"
        for task in tasks:
            await running.client.cancel(task)
        await running.until_status(tasks, "cancelled")
