"""A site that refuses in the middle of a crawl over several nodes: all of them stay away, and no page is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testkit.patience import PATIENCE_S, promised
from tests.processes.fleet import fleet
from tests.processes.logging_site import PAGES, logging_site

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECTIONS = 6
FIRST, SECOND = "^/crawl", "crawl"
AWAY_S = 10.0
REACH_S = 1.5
"""What was under way, and how long it takes until all nodes know."""


async def test_a_refusal_reaches_every_member_and_costs_no_page(tmp_path: Path) -> None:
    async with logging_site(tmp_path) as site, fleet(tmp_path) as running:
        await running.start("--allow-host", site.host, workers=3, slots=1)
        await running.client.put_host(site.host, rate=80, concurrency=9)
        starts = [f"{site.url}/crawl{number}/" for number in range(SECTIONS)]
        # What the first is closed for reaches the second when the first is opened.
        await site.hold(FIRST, after=50)
        await site.hold(SECOND, after=40)
        group = await running.client.crawl(starts, {"depth": 2, "max_pages": 1_000}, members=3)
        refused_at = []
        for pattern, status in ((FIRST, 429), (SECOND, 503)):
            await site.wait_held()
            # What is held is refused when it is released.
            refused_at.append(await site.refuse(AWAY_S, status))
            await site.release(pattern)
        ended = await running.client.wait_group(group.id, PATIENCE_S)
        assert ended.crawl is not None and ended.is_complete
        assert (ended.crawl.failed, ended.crawl.queued, ended.crawl.stopped_by) == (0, 0, None)
        found = Counter([item["url"] async for item in running.client.group_items(group.id)])
        listed = {f"{start}{number}" for start in starts for number in range(PAGES)} | set(starts)
        assert found == Counter(dict.fromkeys(listed, 1))
        arrivals = await site.arrivals()
        for at in refused_at:
            assert [one - at for one in arrivals if at + promised(REACH_S) < one < at + AWAY_S - 0.1] == []
        host = (await running.client.host(site.host)).host
        assert host.refused >= 2
        members = {task.assigned_node async for task in running.client.list(group=group.id)}
        assert len(members) == 3
        running.note([task.id async for task in running.client.list()])
        assert await running.verdict() == []
