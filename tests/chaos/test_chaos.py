"""A real cluster under faults, as `make chaos` runs it, for two minutes; and a shorter one that only loses masters."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

SEED = "521"
"""Nearly every kind of fault within two minutes: a leader frozen past its term, workers dead, frozen and cut off past
their leases, and a leader killed after a rest, so that its successor is timed."""
pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]

PATIENCE_S = 900.0
"""Faults last as long as they are told to; starting, draining and a busy machine may take as long again."""


@pytest.mark.timeout(PATIENCE_S + 30)
async def test_two_minutes_of_faults_lose_and_double_nothing(tmp_path: Path) -> None:
    code, said = await _chaos(tmp_path, "--seed", SEED, "--seconds", "120")
    assert code == 0, said
    assert "all holds" in said


@pytest.mark.timeout(PATIENCE_S + 30)
async def test_masters_killed_in_turn_cost_no_task_and_double_none(tmp_path: Path) -> None:
    code, said = await _chaos(
        tmp_path, "--scenario", "rolling", "--tasks", "300", "--every", "8", "--seconds", "300", "--network", "proxies"
    )
    assert code == 0, said
    assert "300 tasks ended" in said


async def _chaos(folder: Path, *options: str) -> tuple[int, str]:
    """A process of its own: it goes into a network of its own, and ends what it started."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "testkit.chaos",
        "--folder",
        str(folder),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            said, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode is not None
    return child.returncode, said.decode()
