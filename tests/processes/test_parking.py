"""A host that is away: its tasks give their slots to others, say why they wait, and complete at no cost of a retry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import Fleet
from tests.processes.logging_site import LoggingSite, logging_site

pytestmark = [pytest.mark.integration, pytest.mark.slow]

AWAY_S = 3_000
"""Longer than any test: it ends when the host is forgiven."""
SHORTLY_S = 3
SLOTS = 2


@pytest.fixture
async def sites(tmp_path: Path) -> AsyncIterator[tuple[LoggingSite, LoggingSite]]:
    for name in ("away", "there"):
        (tmp_path / name).mkdir()
    async with logging_site(tmp_path / "away") as away, logging_site(tmp_path / "there") as there:
        yield away, there


def crawls(site: LoggingSite, count: int) -> list[dict[str, Any]]:
    # Without robots.txt, which a site that refuses refuses as well.
    parameters = {"depth": 0, "respect_robots": False}
    return [
        {"task_type": "web_crawl", "parameters": {"url": f"{site.url}/crawl{number}/", **parameters}}
        for number in range(count)
    ]


async def test_a_host_in_back_off_parks_its_tasks_and_others_have_the_slots(
    running: Fleet, sites: tuple[LoggingSite, LoggingSite]
) -> None:
    away, there = sites
    await running.start("--allow-host", away.host, "--allow-host", there.host, workers=1, slots=SLOTS)
    await away.refuse(AWAY_S)
    parked = await running.submit(crawls(away, 2 * SLOTS))
    await running.until_status(parked, "waiting")
    for task in parked:
        why = await running.client.why(task)
        assert why.sentence.startswith(f"host {away.host} in back-off until 20")
        assert (why.data["cause"], why.data["host"]) == ("host_backoff", away.host)
    others = await running.submit(crawls(there, 2 * SLOTS))
    await running.until_status(others, "completed")
    assert {(await running.client.get(task)).status for task in parked} == {"waiting"}
    # Tried again, they are refused for a moment, which ends by itself.
    await away.refuse(SHORTLY_S)
    await running.client.forgive_host(away.host)
    await running.until_status(parked, "completed")
    for task in parked:
        ended = await running.client.executions(task)
        assert [one.status for one in ended][-1] == "completed"
        assert {one.status for one in ended[:-1]} == {"parked"}
        assert (await running.client.get(task)).retry_count == 0
    assert await running.verdict() == []


async def test_forgiving_a_host_brings_its_tasks_back_at_once(
    running: Fleet, sites: tuple[LoggingSite, LoggingSite]
) -> None:
    away, _ = sites
    await running.start("--allow-host", away.host, workers=1, slots=SLOTS)
    await away.refuse(AWAY_S)
    tasks = await running.submit(crawls(away, SLOTS))
    await running.until_status(tasks, "waiting")

    async def is_known() -> bool:
        return bool([host async for host in running.client.hosts(backing_off=True)])

    await running.until(is_known, "the back-off is not known")
    await away.refuse(0)
    await running.client.forgive_host(away.host)
    await running.until_status(tasks, "completed")
