"""What people see of work under way, and of work that did not complete: figures while it runs, its log afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]


RUNS_S = 12
"""By then its process has started and has said something, on a busy machine as well."""


def stumbles(then: str, **fields: Any) -> dict[str, Any]:
    return {"task_type": "stumbles", "parameters": {"then": then}, "retry": {"max_retries": 0}, **fields}


async def test_figures_show_while_it_runs_and_the_log_of_what_did_not_complete_stays(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start("--executors", "tests.integration.execution.executors.user_executors", workers=1)
        fails, late, cancelled = tasks = await running.submit(
            [stumbles("fail"), stumbles("wait", timeout_s=RUNS_S), stumbles("wait")]
        )

        async def is_seen() -> bool:
            shown = [one.progress for one in await running.client.executions(cancelled)]
            return bool(shown == [(await running.client.get(cancelled)).progress] == [{"pages": 3, "items": 99}])

        await running.until(is_seen, "its figures are not shown")
        await running.client.cancel(cancelled)
        await running.until_final(3)
        ends = [(await running.client.get(task)) for task in tasks]
        assert [end.status for end in ends] == ["failed", "timeout", "cancelled"]
        assert [end.progress for end in ends] == [None] * 3
        for task in (fails, late, cancelled):
            (execution,) = await running.client.executions(task)
            told = [execution.metrics[name] for name in ("pages", "items", "log_chunks")]
            assert told == [3, 0, 1]
            assert await _log(running, task) == ["got this far"]


async def _log(running: Fleet, task: str) -> list[str]:
    """As the command prints it."""
    env = {"CRAWLFLEET_URL": running.client.url, "CRAWLFLEET_TOKEN": running.admin}
    code, said = await running.run("log", "task", "log", task, "--json", env=env)
    assert code == 0, said
    return [json.loads(line)["message"] for line in said.splitlines()]
