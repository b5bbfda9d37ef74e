"""`crawlfleet reset` beside a master of its own process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.fleet import echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def test_a_reset_is_refused_while_a_master_runs_and_done_afterwards(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master()
        await running.submit([echo(1)])
        command = ("reset", "reset", "--data-dir", str(running.data_dir), "--yes", "master")
        code, text = await running.run(*command)
        assert (code, "a master works with" in text) == (1, True)
        assert (await running.client.stats()).total == 1
        await running.client.close()
        await running.master.stop()
        code, text = await running.run(*command)
        assert (code, text) == (0, "master: removed, with 1 tasks and their results\n")
        await running.start_master()
        assert (await running.client.stats()).total == 0
