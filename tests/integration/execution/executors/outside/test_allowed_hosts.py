"""Hosts that a master allows while the agent runs: beside the node's own, for executions that start afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.execution.executors.executors_kit import assignment, executing, result_of, until
from tests.paths import ROOT

pytestmark = pytest.mark.integration


async def test_hosts_that_are_allowed_later_stand_beside_the_node_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with executing(tmp_path, as_builtin=("may_visit",), allow_hosts=["own"], processes=1) as executor:

        async def seen() -> list[list[str]]:
            """In a shared process, and in one of its own."""
            asked = [assignment("may_visit"), assignment("may_visit", is_alone=True)]
            return [result_of(await executor.run(one)) for one in asked]

        assert await seen() == [["own"]] * 2
        executor.allow_hosts(["shop", "own"])
        assert await seen() == [["own", "shop"]] * 2
        (process,) = executor.shared_processes
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: executor.shared_processes and executor.shared_processes[0] is not process)
        assert await seen() == [["own", "shop"]] * 2
        executor.allow_hosts([])
        assert await seen() == [["own"]] * 2
