"""Agents as children: which end is followed by another start, and which is not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from crawlfleet.bootstrap import child_agents
from crawlfleet.bootstrap.agent_child import ChildOrder
from crawlfleet.bootstrap.child_agents import ChildAgents
from crawlfleet.bootstrap.worker import EXIT_CONFIG, WorkerOptions


class ScriptedAgents(ChildAgents):
    """Children that end with these codes, and then run for ever."""

    def __init__(self, codes: Sequence[int]) -> None:
        options = WorkerOptions(masters=["http://127.0.0.1:1"], data_dir=Path("/nowhere"), name="crew-1")
        super().__init__([ChildOrder(1, "info", "auto", options)])
        self._codes = iter(codes)
        self.starts = 0
        self.settled = asyncio.Event()

    async def _run_child(self, number: int, order: ChildOrder) -> int:
        self.starts += 1
        code = next(self._codes, None)
        if code is None:
            self.settled.set()
            await asyncio.Event().wait()
        assert code is not None
        return code


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_agents, "_RESTART_S", (0.0, 0.0))


async def test_a_child_that_dies_is_started_again_whatever_its_code() -> None:
    agents = ScriptedAgents([-9, 1, 0, EXIT_CONFIG])
    running = asyncio.create_task(agents.run())
    await agents.settled.wait()
    assert agents.starts == 5
    assert agents.refusal is None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_first_start_that_is_refused_is_not_repeated() -> None:
    agents = ScriptedAgents([EXIT_CONFIG])
    await agents.run()
    assert (agents.starts, agents.refused.is_set()) == (1, True)
    assert "the agent crew-1 cannot start in /nowhere" in str(agents.refusal)


async def test_nothing_starts_after_the_stop() -> None:
    agents = ScriptedAgents([])
    await agents.leave_within(0.0)
    await agents.run()
    assert agents.starts == 0
    assert agents.pids == []
