"""Bounded reads for alert rules."""

from crawlfleet.model.host import Backoff, Host
from crawlfleet.model.host_stats import BLOCKED, REQUESTS, Batch, empty_row
from crawlfleet.ports.alert_store import HostBlocks
from crawlfleet.ports.host_store import GrantChange
from crawlfleet.ports.store import Store
from testkit.factories import Kit


async def hosts_are_summed_over_minutes_and_joined_with_their_back_off(store: Store, kit: Kit) -> None:
    node = await kit.node()
    term = await kit.term()
    for number, (requests, blocked) in enumerate([(10, 1), (20, 5)], 1):
        row = empty_row()
        row[REQUESTS], row[BLOCKED] = requests, blocked
        await store.add_figures([Batch(node.id, node.session, number, [("a.example", row)])], kit.later(60_000))
        await store.fold_figures(term, kit.now)
    backing_off = [
        Host(name, backoff=Backoff(level, kit.now + 1_000, 0, "429")) for name, level in (("b", 5), ("c", 4))
    ]
    await store.put_grants(GrantChange(hosts=backing_off), term, kit.now)
    found_hosts = await kit.second.blocked_hosts(kit.now - 600_000, kit.now, 5, 10)
    assert found_hosts == [HostBlocks("a.example", 30, 6), HostBlocks("b", level=5, reason="429")]
    assert await kit.second.blocked_hosts(kit.now + 60_000, kit.now + 2_000, 5, 10) == []


async def an_empty_installation_has_nothing_to_alert_of(store: Store, kit: Kit) -> None:
    assert await store.left_out_ticks(0, kit.now, 10) == []
    assert await store.recent_causes(10) == []
    assert await store.schedule_runs(0, 10, 8) == []
    assert await store.runs_of_schedules([], 8) == []
    assert await store.runs_of_schedules([1, 2], 8) == []
