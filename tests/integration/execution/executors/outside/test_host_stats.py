"""What real executor processes count of a host arrives at their agent: of shared ones, and of one that ends at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.model.execution import End
from crawlfleet.model.host_stats import BYTES, ERRORS, KINDS, PAGES, REQUESTS, status_place, sum_rows
from crawlfleet.ports.clock import SystemClock, boot_time
from crawlfleet.wire.sync import GrantsBody, HostGrantBody
from tests.integration.execution.executors.executors_kit import ChunkServer, assignment, executing, result_of, until
from tests.unit.execution.crawl.crawl_kit import site

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("is_alone", [False, True])
async def test_what_was_counted_arrives(tmp_path: Path, is_alone: bool) -> None:
    grants, lease = HostGrants(SystemClock()), NodeLease(SystemClock())
    lease.start(600.0, boot_time())
    grants.attach_sync(lease, lambda _within_s: None)
    pages = {"/": '<a href="/a">a</a><a href="/none">none</a>', "/a": "x" * 100}
    async with (
        ChunkServer().serving() as server,
        site(pages) as served,
        executing(tmp_path, server, grants=grants, allow_hosts=["127.0.0.1"], processes=1) as executor,
    ):
        host = served.url.removeprefix("http://")
        grants.apply_grants(GrantsBody(1, [HostGrantBody(host, 100, 8)]))
        asked = assignment("web_crawl", {"url": f"{served.url}/", "depth": 1}, is_alone=is_alone)
        outcome = await executor.run(asked)
        assert outcome.end == End.COMPLETED, outcome.message
        assert result_of(outcome)["metrics"]["pages_crawled"] == 2
        told: list[list[int]] = []

        def is_told() -> bool:
            # The last sync of a node asks for all there is.
            batch = grants.host_stats.next_batch(1, 1, is_last=True)
            grants.host_stats.sync_answered(1)
            told.extend(row for name, row in (batch.hosts if batch else []) if name == host)
            return sum_rows(told)[REQUESTS] >= len(served.hits)

        await until(is_told)
        row = sum_rows(told)
        assert (row[REQUESTS], row[PAGES]) == (len(served.hits), 2)
        # Its robots.txt is one of those that are not there.
        assert (row[status_place(200)], row[status_place(404)]) == (2, 2)
        assert row[BYTES] > 100 and row[ERRORS : ERRORS + len(KINDS)] == [0] * len(KINDS)
    grants.close()
