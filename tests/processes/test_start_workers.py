"""`crawlfleet start-workers`: one supervisor, children that come back, an orderly end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from testkit.patience import PATIENCE_S
from tests.processes.fleet import Fleet, Process, echo, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def start_workers(running: Fleet, *options: str, count: int = 3) -> Process:
    token = (await running.client.create_token("enrol", uses=count)).token
    command = ["start-workers", "--count", str(count), "--master", running.client.url, "--slots", "2", "--name", "crew"]
    started = await running._spawn(
        "crew",
        *command,
        "--data-dir",
        str(running.folder / "crew"),
        *options,
        env={"CRAWLFLEET_ENROL_TOKEN": token},
    )
    running.workers.append(started)
    await running.until_online(count)
    return started


def agents(started: Process) -> list[psutil.Process]:
    """Those of its children that are agents, not their executor processes."""
    return [child for child in psutil.Process(started.pid).children() if _is_agent(child)]


def _is_agent(child: psutil.Process) -> bool:
    try:
        return "agent_child" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        # It was killed while it was looked at.
        return False


async def test_a_killed_child_comes_back_as_itself_and_ctrl_c_drains_all(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        started = await start_workers(running)
        assert sorted(node.name for node in await running.client.nodes()) == ["crew-1", "crew-2", "crew-3"]
        before = agents(started)
        assert len(before) == 3
        before[0].send_signal(signal.SIGKILL)
        await running.until(
            lambda: len(agents(started)) == 3 and before[0].pid not in {child.pid for child in agents(started)},
            "the child has not come back",
        )
        assert {child.pid for child in before[1:]} <= {child.pid for child in agents(started)}
        tasks = await running.submit([*(echo(n) for n in range(30)), *(sleep(1.0) for _ in range(6))])
        await running.until_online(3)
        assert len(await running.client.nodes()) == 3
        await running.until_status(tasks[:30], "completed")
        started.signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            assert await started.child.wait() == 0
        await running.until_status(tasks[:30], "completed")
        assert not any(child.is_running() for child in before[1:])
        left = {(await running.client.get(task)).status for task in tasks}
        assert left <= {"completed", "pending"}
        assert await running.verdict() == []


async def test_a_second_ctrl_c_hands_running_work_back(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        started = await start_workers(running, count=1)
        (task,) = await running.submit([sleep(3_000)])
        await running.until_status([task], "processing")
        started.signal(signal.SIGINT)
        await running.until(lambda: running.has_said("workers_leaving"), "the signal was not heard")
        started.signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_S):
            assert await started.child.wait() == 0
        await running.until_status([task], "pending")


async def test_a_wrong_token_ends_all_of_them_with_its_reason(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        command = ["--count", "2", "--master", running.client.url, "--data-dir", str(tmp_path / "crew")]
        code, text = await running.run("crew", "start-workers", *command, env={"CRAWLFLEET_ENROL_TOKEN": "0" * 64})
        assert code == 2
        assert "not accepted" in text
        assert "cannot start in" in text
        code, text = await running.run("crew", "start-workers", "--count", "65", "--master", running.client.url)
        assert code == 2
        assert "more than max_workers allows (64)" in text
