"""A quota on pages a day over a real installation: the site's own log says whether it was kept."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from crawlfleet.client.errors import ApiError
from tests.processes.fleet import Fleet
from tests.processes.logging_site import PAGES, LoggingSite

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROJECT = "shop"
QUOTA = 50
CRAWLS = 4


def crawls(site: LoggingSite, count: int) -> list[dict[str, Any]]:
    """Each asks for thirty pages, and for robots.txt where its process does not know it."""
    return [
        {
            "task_type": "web_crawl",
            "project_id": PROJECT,
            "parameters": {"url": f"{site.url}/crawl{number}/", "depth": 1, "max_pages": PAGES},
        }
        for number in range(count)
    ]


async def test_crawls_stop_at_the_quota_of_their_day_and_go_on_when_it_is_raised(
    running: Fleet, site: LoggingSite
) -> None:
    await running.start("--allow-host", site.host, workers=2, slots=2)
    await running.client.put_host(site.host, rate=100, concurrency=8)
    await running.client.put_project(PROJECT, pages_per_day=QUOTA)
    tasks = await running.submit(crawls(site, CRAWLS))

    async def statuses() -> dict[str, str]:
        return {task: (await running.client.get(task)).status for task in tasks}

    async def are_parked_for_good() -> bool:
        """Too little is left for any of them to be tried again; for one of them there may have been enough."""
        counts = Counter((await statuses()).values())
        if counts["waiting"] < CRAWLS - 1 or counts["waiting"] + counts["completed"] < CRAWLS:
            return False
        left = (await running.client.project(PROJECT)).quotas.pages_per_day.left
        return left is not None and left < QUOTA // 4

    await running.until(are_parked_for_good, "they do not stop")
    tasks = [task for task, status in (await statuses()).items() if status == "waiting"]
    asked = len(await site.arrivals())
    shown = (await running.client.project(PROJECT)).quotas.pages_per_day
    assert asked <= QUOTA
    assert (shown.limit, shown.used, shown.left) == (QUOTA, asked, QUOTA - asked), "what was not used came back"
    await running.client.put_project(PROJECT, pages_per_day=asked)
    sentence = f"quota 'pages per day' of project {PROJECT}: 0 of {asked} left until 00:00 UTC"
    for task in tasks:
        why = await running.client.why(task)
        assert why.sentence.startswith(sentence)
        assert (why.data["cause"], why.data["left"]) == ("daily_quota", 0)
    (late,) = await running.submit(crawls(site, 1))
    why = await running.client.why(late)
    assert (why.sentence, why.data["cause"], why.data["limit"]) == (sentence, "quota", asked)
    await running.client.put_project(PROJECT, pages_per_day=QUOTA + 400)
    await running.until_status([*tasks, late], "completed")
    in_all = len(await site.arrivals())
    # A process that has read robots.txt before does not ask for it again.
    assert (len(tasks) + 1) * PAGES <= in_all - asked <= (len(tasks) + 1) * (PAGES + 1)
    assert (await running.client.project(PROJECT)).quotas.pages_per_day.used == in_all
    for task in tasks:
        assert (await running.client.get(task)).retry_count == 0
    assert await running.verdict() == []


async def test_a_crawl_that_may_not_wait_fails_and_one_that_is_too_large_for_a_day_says_so(
    running: Fleet, site: LoggingSite
) -> None:
    await running.start("--allow-host", site.host, workers=1, slots=2)
    await running.client.put_host(site.host, rate=100, concurrency=8)
    await running.client.put_project(PROJECT, pages_per_day=10)
    (large,) = await running.submit(crawls(site, 1))
    await running.until_status([large], "failed")
    (ended,) = await running.client.executions(large)
    assert ended.error is not None
    assert ended.error.message == f"needs more than the whole quota 'pages per day' of project {PROJECT}: 10"
    assert len(await site.arrivals()) <= 10
    await running.client.put_project(PROJECT, pages_per_day=20, on_full="refuse")
    (refused,) = await running.submit(crawls(site, 1))
    await running.until_status([refused], "failed")
    (ended,) = await running.client.executions(refused)
    assert ended.error is not None
    assert ended.error.message == f"quota 'pages per day' of project {PROJECT}: 0 of 20 left until 00:00 UTC"
    assert len(await site.arrivals()) <= 20
    await running.client.put_project(PROJECT, pages_per_day=1)
    with pytest.raises(ApiError, match="0 of 1 left until 00:00 UTC"):
        await running.client.submit("web_crawl", {"url": site.url}, project_id=PROJECT)
