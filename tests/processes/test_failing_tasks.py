"""Hundreds of tasks that fail by their own fault, on every node: no node loses its health, and good work goes on."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import Fleet, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]

JUDGED_S = 25.0
"""A bad judgement needs ten seconds; this is about how long the tasks keep failing."""
CLASSES = ("network", "http", "blocked", "parse", "input", "policy", "internal", "timeout")


def failing(error: str) -> dict[str, Any]:
    return {"task_type": "fails_as", "parameters": {"error": error}, "retry": {"max_retries": 0}}


def unreachable_site(port: int) -> dict[str, Any]:
    parameters = {"url": f"http://127.0.0.1:{port}/"}
    return {"task_type": "web_crawl", "parameters": parameters, "retry": {"max_retries": 0}}


async def test_no_node_loses_its_health_and_good_work_goes_on(tmp_path: Path) -> None:
    with socket.socket() as closed:
        # Bound and never listening: every connection to it is refused.
        closed.bind(("127.0.0.1", 0))
        async with fleet(tmp_path) as running:
            await running.start(
                "--executors",
                "tests.integration.execution.executors.user_executors",
                "--allow-host",
                "127.0.0.1",
                workers=2,
            )
            bad = await running.submit([failing(CLASSES[number % len(CLASSES)]) for number in range(150)])
            await running.submit([unreachable_site(closed.getsockname()[1])] * 10)
            await running.until_status(bad, "failed")
            until = time.monotonic() + JUDGED_S
            while time.monotonic() < until:
                more = await running.submit([failing(CLASSES[number % len(CLASSES)]) for number in range(16)])
                await running.until_status(more, "failed")
                assert await _healths(running) == ["healthy"] * 2
            good = await running.submit([sleep(0.1)] * 16)
            await running.until_status(good, "completed")
            nodes = {(await running.client.get(task)).assigned_node for task in good}
            assert len(nodes) == 2


async def _healths(running: Fleet) -> list[str]:
    return [node.health for node in await running.client.nodes()]
