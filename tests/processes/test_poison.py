"""Tasks that crash, eat memory, do not listen or hold the interpreter; and processes that die with innocents inside."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from testkit.site import SiteProcess, site_process
from tests.processes.fleet import Fleet, Process, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SLOTS = 8
SOON = {"base_delay_s": 0.01, "max_delay_s": 0.01}
RUNS_S = 12
"""Of a task that does not listen: by then its process has started, on a busy machine as well."""
BAD, INNOCENT, OTHER = r"^/products/1$", r"^/products/1\d$", r"^/products/2\d$"


def guilty(task_type: str, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"task_type": task_type, "parameters": parameters, "retry": SOON, **fields}


def crawl(site: SiteProcess, number: int) -> dict[str, Any]:
    return guilty("web_crawl", {"url": f"{site.url}/products/{number}", "depth": 0})


async def test_only_the_guilty_suffer(tmp_path: Path) -> None:
    deaf, stuck = tmp_path / "deaf", tmp_path / "stuck"
    async with fleet(tmp_path) as running:
        await running.start(
            "--executors",
            "tests.integration.execution.executors.user_executors",
            "--memory-limit-mb",
            "200",
            workers=1,
            slots=SLOTS,
        )
        crashes, eats, ignores, holds = bad = await running.submit(
            [
                guilty("dies", {"how": "SIGSEGV"}),
                guilty("eats_memory", {}),
                guilty("ignores_cancel", {"file": str(deaf)}),
                guilty("holds_interpreter", {"file": str(stuck)}, timeout_s=RUNS_S, retry={"max_retries": 0}),
            ]
        )
        innocent = await running.submit([sleep(0.2)] * 40)
        await running.until(lambda: all(_has_words(file) for file in (deaf, stuck)), "they have not started")
        pids = [int(file.read_text()) for file in (deaf, stuck)]
        await running.client.cancel(ignores)
        await running.until(lambda: _all_final_on_a_node_that_stays_online(running, 44), "not all are final")
        ended = {task: await running.client.get(task) for task in bad}
        assert [ended[task].status for task in bad] == ["failed", "failed", "cancelled", "timeout"]
        assert (ended[crashes].reason or "").startswith("poison: died 3 times alone in its process (")
        assert "SIGSEGV" in (ended[crashes].reason or "")
        assert "used more than 200 MB of memory" in (ended[eats].reason or "")
        assert len(await running.client.executions(crashes)) == len(await running.client.executions(eats)) == 3
        letters = {letter.task_id async for letter in running.client.dead_letters()}
        assert letters == {crashes, eats, holds}
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        await _assert_untouched(running, innocent)
        await _assert_all_slots_are_free(running)
        assert await running.verdict() == []


async def test_a_shared_process_that_dies_costs_its_tasks_nothing_and_the_guilty_end_alone(tmp_path: Path) -> None:
    async with site_process("--products", "30") as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=1, slots=SLOTS)
        await running.client.put_config({"host_rate": 1_000, "host_concurrency": 64})
        for pattern in (BAD, INNOCENT, OTHER):
            await site.hold(pattern)
        (worker,) = running.workers
        (bad,) = await running.submit([crawl(site, 1)])
        innocent = await running.submit([crawl(site, number) for number in range(10, 16)])
        for losses in (1, 2):
            # Each waits for its page: all of them are in the processes that die.
            await site.wait_held(7)
            _kill(_processes(worker, "shared"))
            await running.until(lambda n=losses: _are_lost(running, [bad, *innocent], n), "not all are lost")  # type: ignore[misc]
        # Lost twice: from here on each runs in a process of its own, and only a death there counts against it.
        await site.wait_held(7)
        assert len(_processes(worker, "alone")) == 7
        await site.release(INNOCENT)
        await running.until_status(innocent, "completed")
        for task in innocent:
            view = await running.client.get(task)
            assert (view.retry_count, view.losses) == (0, 2)
            assert [one.status for one in await running.client.executions(task)] == ["lost", "lost", "completed"]
        others = await running.submit([crawl(site, number) for number in range(20, 24)])
        await site.wait_held(4, OTHER)
        for deaths in (1, 2, 3):
            await site.wait_held(1, BAD)
            _kill(_processes(worker, "alone"))
            await running.until(lambda deaths=deaths: _has_died(running, bad, deaths), "it has not died")  # type: ignore[misc]
        assert (await running.client.get(bad)).status == "failed"
        (letter,) = [letter async for letter in running.client.dead_letters()]
        assert (letter.task_id, letter.cause[:6]) == (bad, "poison")
        await site.release(OTHER)
        await running.until_final(11)
        await _assert_untouched(running, others)
        (node,) = await running.client.nodes()
        assert node.status == "online"
        await _assert_all_slots_are_free(running)
        assert await running.verdict() == []


async def _all_final_on_a_node_that_stays_online(running: Fleet, count: int) -> bool:
    (node,) = await running.client.nodes()
    assert node.status == "online"
    stats = await running.client.stats()
    return sum(stats.by_status[status] for status in ("completed", "failed", "timeout", "cancelled")) >= count


async def _assert_untouched(running: Fleet, tasks: list[str]) -> None:
    for task in tasks:
        view = await running.client.get(task)
        assert (view.status, view.retry_count, view.losses) == ("completed", 0, 0)


async def _assert_all_slots_are_free(running: Fleet) -> None:
    final = (await running.client.stats()).total
    tasks = await running.submit([sleep(300)] * SLOTS)
    await running.until_status(tasks, "processing")
    await running.client.cancel_many(ids=tasks)
    await running.until_final(final + SLOTS)


async def _are_lost(running: Fleet, tasks: list[str], times: int) -> bool:
    return all([(await running.client.get(task)).losses == times for task in tasks])


async def _has_died(running: Fleet, task: str, deaths: int) -> bool:
    return sum(one.status == "failed" for one in await running.client.executions(task)) == deaths


def _processes(worker: Process, kind: str) -> list[psutil.Process]:
    """The executor processes of a kind, supervisors apart: what runs is the innermost."""
    found: dict[int, tuple[psutil.Process, int]] = {}
    for one in worker.tree():
        try:
            argv = one.cmdline()
            if "crawlfleet.execution.executors.inside.process_entry" in argv and kind in argv:
                found[one.pid] = one, one.ppid()
        except psutil.NoSuchProcess:
            continue
    parents = {parent for _, parent in found.values()}
    return [one for one, _ in found.values() if one.pid not in parents]


def _has_words(file: Path) -> bool:
    return file.exists() and bool(file.read_text())


def _kill(processes: list[psutil.Process]) -> None:
    assert processes
    for one in processes:
        one.send_signal(signal.SIGKILL)
