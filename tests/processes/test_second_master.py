"""Masters on one PostgreSQL database without a broker between them: the second is refused, a restarted one is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from testkit.patience import promised
from tests.processes.fleet import Fleet, echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]

RESTART_S = 10.0
"""The silence after which a leader is taken for lost, and time to start on a busy machine."""


async def test_a_second_master_is_told_what_it_needs_and_a_restarted_one_starts(
    tmp_path: Path, postgres_dsn: str
) -> None:
    async with fleet(tmp_path) as running:
        await running.start_master("--store", postgres_dsn)
        code, said = await Fleet(tmp_path).run(
            "second", "master", "--data-dir", str(tmp_path / "second"), "--port", "0", "--store", postgres_dsn
        )
        assert code == 2, said
        assert "error: broker: memory: " in said
        assert "--broker redis://" in said
        assert "Traceback" not in said

        await running.master.kill()
        await running.client.close()
        began_at = asyncio.get_running_loop().time()
        await running.start_master("--store", postgres_dsn)
        assert asyncio.get_running_loop().time() - began_at < promised(RESTART_S)
        await running.start_worker("worker")
        await running.submit([echo(1)])
        assert (await running.until_final(1))["completed"] == 1
