"""Outcomes that are together larger than one body: a real node hands them over in parts and stays."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.api.routes.node_calls.sync import BODY_BYTES
from crawlfleet.execution.agent.work.outbox import FILE_NAME
from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

USER = ("--executors", "tests.integration.execution.executors.user_executors")
TASKS = 24
PRODUCTS, PRODUCT_BYTES = 100, 15_000
assert TASKS * PRODUCTS * PRODUCT_BYTES > BODY_BYTES


async def test_tasks_with_many_products_that_end_together_all_complete(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(*USER, workers=1, slots=TASKS)
        ids = await _started(running, tmp_path)
        (tmp_path / "released").touch()
        await running.until_status(ids, "completed")
        assert [len(await running.client.executions(task)) for task in ids] == [1] * TASKS
        assert await _products(running) == TASKS * PRODUCTS
        assert await running.verdict() == []


async def test_a_node_with_more_saved_than_a_body_holds_opens_its_next_session(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start(*USER, workers=1, slots=TASKS)
        ids = await _started(running, tmp_path)
        running.master.signal(signal.SIGSTOP)
        try:
            (tmp_path / "released").touch()
            outbox = tmp_path / "worker-0" / "outbox" / FILE_NAME
            await running.until(
                lambda: outbox.exists() and outbox.stat().st_size > BODY_BYTES, "not all outcomes are saved"
            )
            await running.workers[0].kill()
        finally:
            running.master.signal(signal.SIGCONT)
        worker = await running.start_worker("worker-0", *USER, slots=TASKS)
        # Whether its lease had ended by then or not: what it saved is taken, or done again.
        await running.until_status(ids, "completed")
        await running.until(lambda: "session_opened" in worker.log.read_text(), "it opens no session")
        assert await _products(running) == TASKS * PRODUCTS
        assert await running.verdict() == []


async def _started(running: Fleet, folder: Path) -> list[str]:
    ids = await running.submit([_task(folder, number) for number in range(TASKS)])
    for number in range(TASKS):
        await running.until((folder / f"started-{number}").exists, f"task {number} has not started")
    return ids


def _task(folder: Path, number: int) -> dict[str, Any]:
    files = {"started": str(folder / f"started-{number}"), "released": str(folder / "released")}
    sizes = {"products": PRODUCTS, "product_bytes": PRODUCT_BYTES}
    return {"task_type": "sees_products", "parameters": {**files, **sizes}}


async def _products(running: Fleet) -> int:
    return len([product.id async for product in running.client.products(limit=10 * TASKS * PRODUCTS)])
