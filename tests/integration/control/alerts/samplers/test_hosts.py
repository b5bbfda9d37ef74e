"""Alerts about hosts that block, by what nodes counted."""

from __future__ import annotations

import pytest

from crawlfleet.model.host import Backoff, Host
from crawlfleet.model.host_stats import BLOCKED, REQUESTS, Batch, empty_row
from crawlfleet.ports.host_store import GrantChange
from crawlfleet.store.store import SqlStore
from tests.integration.control.alerts.alerts_kit import AlertFleet

pytestmark = pytest.mark.integration


async def count_requests(fleet: AlertFleet, number: int, host: str, requests: int, blocked: int) -> None:
    row = empty_row()
    row[REQUESTS], row[BLOCKED] = requests, blocked
    node = fleet.nodes[0]
    await fleet.store.add_figures([Batch(node.id, node.session, number, [(host, row)])], fleet.clock.now())
    await fleet.master.figure_tallier.run_once(fleet.clock.now())


async def test_a_host_that_blocks_half_of_the_requests_is_told(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    await fleet.node()
    await count_requests(fleet, 1, "shop.example", 19, 19)
    await count_requests(fleet, 2, "calm.example", 100, 3)
    await fleet.watch(24, 2)
    assert await fleet.alert_status("host_blocked", "host:shop.example") == "ok"
    await count_requests(fleet, 3, "shop.example", 1, 0)
    await fleet.watch(24, 2)
    [notice] = fleet.service.notices()
    assert (notice.scope, notice.value) == ("host:shop.example", 0.95)
    assert notice.why == "shop.example blocked 19 of 20 requests."
    # Later the same host is fine: the blocks have left the window.
    fleet.clock.advance(900)
    await count_requests(fleet, 4, "shop.example", 50, 0)
    await fleet.watch(400, 10)
    assert fleet.service.heard() == [("firing", "host_blocked"), ("recovered", "host_blocked")]


async def test_a_long_back_off_counts_whatever_the_figures_are(store: SqlStore) -> None:
    fleet = await AlertFleet.make(store, "ops")
    backoff = Backoff(5, fleet.clock.now() + 3_600_000, 0, "429")
    term = fleet.master.lead.term
    assert term is not None
    await store.put_grants(GrantChange(hosts=[Host("hard.example", backoff=backoff)]), term, fleet.clock.now())
    await fleet.watch(30, 2)
    [notice] = fleet.service.notices()
    assert notice.why == "hard.example is in back-off of level 5: 429."
