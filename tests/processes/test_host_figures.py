"""What is counted of a host over several nodes is what the host itself counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.fleet import fleet
from tests.processes.logging_site import PAGES, logging_site

pytestmark = [pytest.mark.integration, pytest.mark.slow]


async def test_figures_of_two_nodes_are_those_of_the_site(tmp_path: Path) -> None:
    async with logging_site(tmp_path) as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=2, slots=2)
        await running.client.put_host(site.host, rate=200, concurrency=16)
        tasks = await running.submit(
            [
                {"task_type": "web_crawl", "parameters": {"url": f"{site.url}/{number}/0", "depth": 1}}
                for number in range(4)
            ]
        )
        await running.until_status(tasks, "completed")
        asked = len(await site.arrivals())

        async def is_counted() -> bool:
            found = (await running.client.host(site.host)).figures.total
            return found is not None and found.requests >= asked and found.pages >= 4 * PAGES

        await running.until(is_counted, "not all requests and pages are counted")
        total = (await running.client.host(site.host)).figures.total
        assert total is not None
        assert (total.requests, total.pages) == (asked, 4 * PAGES)
        assert total.statuses == {"2xx": 4 * PAGES, "4xx": asked - 4 * PAGES}
        assert total.bytes > 0 and total.errors == {} and total.answer_ms.p50 is not None
        history = await running.client.host_history(site.host, span="hour")
        assert sum(point.counted.requests for point in history.points) == asked
