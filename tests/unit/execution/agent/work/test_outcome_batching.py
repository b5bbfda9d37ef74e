"""When outcomes go: the last one at once, the others of a busy node after a moment, together."""

import asyncio
from pathlib import Path

from crawlfleet.execution.agent.work.outcomes import BATCH_DELAY_S
from tests.unit.execution.agent.agent_kit import Master, node, virtual


@virtual
async def test_the_last_outcome_goes_at_once(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.work.end(1)
        await asyncio.sleep(BATCH_DELAY_S / 4)
        assert list(one.master.ends()) == [1]


@virtual
async def test_outcomes_of_a_busy_node_go_together(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2, 3)
        await asyncio.sleep(1)
        before = len(one.master.calls)
        one.work.end(1)
        await asyncio.sleep(BATCH_DELAY_S / 2)
        one.work.end(2)
        await asyncio.sleep(BATCH_DELAY_S / 4)
        assert one.master.ends() == {}, "3 still runs: they wait for one another"
        await asyncio.sleep(BATCH_DELAY_S)
        assert sorted(one.master.ends()) == [1, 2]
        assert len(one.master.calls[before].up.outcomes) == 2
