"""Metered executions in real processes, shared and alone: what they want goes up, what they used comes with the end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.model.execution import End, ParkCause
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.executor import Stopped
from crawlfleet.wire.sync import OverBody, SliceBody, UsedBody
from tests.integration.execution.executors.executors_kit import assignment, executing, until
from tests.paths import ROOT

pytestmark = pytest.mark.integration

BOTH = pytest.mark.parametrize("as_builtin", [(), ("metered",)], ids=["alone", "shared"])


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The users' module, also by shared processes."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))


class Day:
    """Answers every want as a sync would: a few pages each time, as long as there are any."""

    def __init__(self, pages: int, again_ms: int = 0) -> None:
        self.left = pages
        self.total = 0
        self.again_ms = again_ms
        self.slices = QuotaSlices()
        self.slices.attach_sync(self._tell)

    def _tell(self, _within_s: float) -> None:
        asyncio.get_running_loop().call_soon(self.sync)

    def sync(self) -> None:
        for want in self.slices.pending_requests():
            got = min(3, self.left, want.pages)
            self.left -= got
            self.total += got
            overs = [] if got else [OverBody("pages_per_day", "shop", "none left", self.again_ms)]
            self.slices.apply_slices([SliceBody(want.execution, want.number, self.total, 1 << 30, overs)])


@BOTH
async def test_what_was_used_is_told_with_the_end(tmp_path: Path, as_builtin: tuple[str, ...]) -> None:
    day = Day(50)
    async with executing(tmp_path, as_builtin=as_builtin, slices=day.slices) as executor:
        outcome = await executor.run(assignment("metered", {"pages": 8}, is_metered=True))
        assert (outcome.end, outcome.used) == (End.COMPLETED, UsedBody(8, 0))
        assert day.slices.pending_requests() == []
        unmetered = await executor.run(assignment("sleep", {"seconds": 0}))
        assert unmetered.used is None


@BOTH
@pytest.mark.parametrize("again_ms", [0, 60_000])
async def test_when_nothing_is_left_it_fails_or_is_parked(
    tmp_path: Path, as_builtin: tuple[str, ...], again_ms: int
) -> None:
    day = Day(5, again_ms)
    async with executing(tmp_path, as_builtin=as_builtin, slices=day.slices) as executor:
        outcome = await executor.run(assignment("metered", {"pages": 8}, is_metered=True))
    assert (outcome.message, outcome.used) == ("none left", UsedBody(5, 0))
    if again_ms:
        parked = (outcome.end, outcome.again_ms, outcome.cause, outcome.subject)
        assert parked == (End.RETURNED, again_ms, ParkCause.DAILY_QUOTA, "shop")
    else:
        assert (outcome.end, outcome.error, outcome.is_permanent) == (End.FAILED, ErrorClass.POLICY, True)


async def test_one_that_is_stopped_says_what_it_used(tmp_path: Path) -> None:
    day = Day(50)
    async with executing(tmp_path, as_builtin=("metered",), slices=day.slices) as executor:
        given = assignment("metered", {"pages": 4, "sleep_s": 60}, is_metered=True)
        running = asyncio.create_task(executor.run(given))
        await until(lambda: any(b'"pages":4' in bytes(told.figures) for told in executor.pop_progress()))
        running.cancel()
        with pytest.raises(Stopped) as stopped:
            await running
    assert stopped.value.used == UsedBody(4, 0)


async def test_one_whose_process_dies_says_nothing(tmp_path: Path) -> None:
    day = Day(50)
    async with executing(tmp_path, as_builtin=("metered",), slices=day.slices) as executor:
        given = assignment("metered", {"pages": 4, "sleep_s": 60}, is_metered=True)
        running = asyncio.create_task(executor.run(given))
        await until(lambda: any(b'"pages":4' in bytes(told.figures) for told in executor.pop_progress()))
        for process in executor.shared_processes:
            process.kill("for the test")
        outcome = await running
    assert (outcome.end, outcome.used) == (End.PROCESS_LOST, None)
