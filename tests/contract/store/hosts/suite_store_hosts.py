"""Target hosts: what is known of them, who holds which part of a budget, and what the leader is told."""

import asyncio

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.evidence import EvidenceRow, Record, Subject
from crawlfleet.model.host import Backoff, Host, HostLimits, HostNoteKind, HostShare, Units
from crawlfleet.ports.host_store import GrantChange, HostFilter, HostNote
from crawlfleet.ports.node_store import Renewal
from crawlfleet.ports.store import Store
from testkit.factories import Kit, ReadyNode

SHOP: Subject = ("host", "shop.example")
SAID = b'[0,[["a.example",3]]]'


def _share(number: int, node: ReadyNode, host: str = "a.example", rate: int = 5) -> HostShare:
    units = Units(rate, 2)
    return HostShare(number, node.id, node.session, host, 3, units, units, 0, 1, (7, 1, 0))


async def _granted(kit: Kit, node: ReadyNode, version: int = 1, *hosts: str) -> list[HostShare]:
    shares = [_share(number, node, host) for number, host in enumerate(hosts or ["a.example"], 1)]
    change = GrantChange(new_shares=shares, versions=[(node.id, node.session, version)])
    await kit.store.put_grants(change, await kit.term(), kit.now)
    return shares


async def what_a_node_says_of_hosts_comes_with_its_renewal(store: Store, kit: Kit) -> None:
    node = await kit.node()
    assert (await kit.second.host_look(kit.now)).sessions == []
    await store.renew_leases([Renewal(node.id, node.session, 5, None, SAID)], kit.now)
    (session,) = (await kit.second.host_look(kit.now)).sessions
    assert session == (node.id, node.session, True, session.lease_ms, SAID, 0)
    await store.renew_leases([Renewal(node.id, node.session, 6, None, None)], kit.now)
    assert (await kit.second.host_look(kit.now)).sessions == []


async def an_older_renewal_says_nothing_of_hosts(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.renew_leases([Renewal(node.id, node.session, 5, None, SAID)], kit.now)
    async with kit.unchanged():
        await store.renew_leases([Renewal(node.id, node.session, 4, None, b"[9,[]]")], kit.now)


async def a_new_session_has_said_and_holds_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.renew_leases([Renewal(node.id, node.session, 5, None, SAID)], kit.now)
    shares = await _granted(kit, node, 4)
    again = await kit.online(node.id)
    (session,) = (await kit.second.host_look(kit.now)).sessions
    assert (session.session, session.said, session.granted) == (again.session, None, 0)
    assert (await kit.second.load_grants([node.id]))[node.id] == (node.id, again.session, 0, [])
    # What the old session may still use is known until the leader takes it away.
    assert await kit.second.all_shares() == shares


async def grants_are_told_with_their_version(store: Store, kit: Kit) -> None:
    node, other = await kit.node(), await kit.node()
    shares = await _granted(kit, node, 3, "a.example", "b.example:8080")
    found = await kit.second.load_grants([node.id, other.id])
    assert found[node.id] == (node.id, node.session, 3, [(share, 0) for share in shares])
    assert found[other.id] == (other.id, other.session, 0, [])
    assert (await kit.renew(node)).granted == 3
    assert (await kit.second.load_nodes([node.id]))[0].granted == 3


async def a_version_of_a_session_that_is_over_is_passed_over(store: Store, kit: Kit) -> None:
    node = await kit.node()
    again = await kit.online(node.id)
    await _granted(kit, node, 8)
    assert (await kit.second.load_grants([node.id]))[node.id].version == 0
    assert (await kit.renew(again)).granted == 0


async def shares_change_and_go(store: Store, kit: Kit) -> None:
    node = await kit.node()
    first, second = await _granted(kit, node, 1, "a.example", "b.example")
    cut = HostShare(first.id, node.id, node.session, first.host, None, Units(), first.may_use, 0, 2, first.counted)
    await store.put_grants(GrantChange(shares=[cut], gone=[second.id]), await kit.term(), kit.now)
    assert await kit.second.all_shares() == [cut]
    assert await kit.second.host_shares("a.example") == [cut]
    assert await kit.second.host_shares("b.example") == []


async def what_is_learned_and_what_a_person_sets_do_not_meet(store: Store, kit: Kit) -> None:
    name, term = "a.example", await kit.term()
    limits = HostLimits(rate=0.5, concurrency=3, delay_s=1.25)
    learned = Host(name, crawl_delay_ms=900, backoff=Backoff(2, 99, 98, "429"), requests=10, refused=2, blocked=1)
    await asyncio.gather(
        store.set_host(name, limits, "ann", kit.now),
        kit.second.put_grants(GrantChange(hosts=[learned]), term, kit.now),
    )
    (host,) = (await kit.second.load_hosts([name, "unknown.example"])).values()
    assert (host.limits, host.set_by, host.set_at) == (limits, "ann", kit.now)
    assert (host.crawl_delay_ms, host.backoff, host.requests) == (900, learned.backoff, 10)
    back = await store.set_host(name, HostLimits(), "ann", kit.now)
    assert (back.limits, back.set_by, back.set_at, back.requests) == (HostLimits(), None, None, 10)


async def the_leader_takes_each_note_once(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.add_host_notes([HostNote("a.example", HostNoteKind.TOO_MANY, 30_000, node.id)])
    await store.set_host("b.example", HostLimits(rate=3), "ann", kit.now)
    notes = (await kit.second.host_look(kit.now)).notes
    assert [note[:4] for note in notes] == [
        ("a.example", HostNoteKind.TOO_MANY, 30_000, node.id),
        ("b.example", HostNoteKind.CHANGED, 0, None),
    ]
    await store.put_grants(GrantChange(taken=[notes[0].id]), await kit.term(), kit.now)
    assert list((await kit.second.host_look(kit.now)).notes) == [notes[1]]


async def a_change_of_the_leaders_is_whole_with_its_events(store: Store, kit: Kit) -> None:
    event = EventBatch(Kind.HOST_BACKOFF, shared={"host": "a.example"})
    await store.put_grants(GrantChange(hosts=[Host("a.example")], events=[event]), await kit.term(), kit.now)
    assert [one.data for one in await kit.events() if one.kind == Kind.HOST_BACKOFF] == [{"host": "a.example"}]


async def hosts_are_listed_by_name_and_by_what_they_are(store: Store, kit: Kit) -> None:
    names = ["a.example", "b.example:8080", "c_d.test", "cxd.test"]
    hosts = [Host(name, backoff=Backoff(1, kit.now + 5, 0, "429") if "b" in name else Backoff()) for name in names]
    await store.put_grants(GrantChange(hosts=hosts), await kit.term(), kit.now)
    await store.set_host("a.example", HostLimits(concurrency=1), "ann", kit.now)

    async def listed(limit: int = 10, after: str | None = None, **where: object) -> list[str]:
        found = await kit.second.list_hosts(HostFilter(**where), kit.now, limit, after)  # type: ignore[arg-type]
        return [host.name for host in found]

    assert await listed() == names
    assert await listed(2, "a.example") == names[1:3]
    assert await listed(text="example") == names[:2]
    assert await listed(text="c_d") == ["c_d.test"]
    assert await listed(is_backing_off=True) == ["b.example:8080"]
    assert await listed(is_set=True) == ["a.example"]
    assert await listed(is_set=False, is_backing_off=False) == names[2:]


async def hosts_nobody_asks_any_more_are_forgotten(store: Store, kit: Kit) -> None:
    node, term = await kit.node(), await kit.term()
    old = [Host(name, counted_at=kit.now) for name in ("held.example", "idle.example", "set.example")]
    young = Host("young.example", counted_at=kit.now + 100)
    await store.put_grants(GrantChange(hosts=[*old, young]), term, kit.now)
    await _granted(kit, node, 1, "held.example")
    await store.set_host("set.example", HostLimits(rate=1), "ann", kit.now)
    assert await store.drop_hosts(term, kit.now + 50, 10) == 1
    assert [host.name for host in await kit.second.list_hosts(HostFilter(), kit.now, 10)] == [
        "held.example",
        "set.example",
        "young.example",
    ]


async def blocks_become_evidence_where_somebody_wants_to_know(store: Store, kit: Kit) -> None:
    node = await kit.node()
    block = Record(blocked=1.0, at=kit.now, last_blocked_at=kit.now)
    change = GrantChange(evidence=[EvidenceRow(node.id, SHOP, "192.0.2.1", block)])
    assert await store.put_grants(change, await kit.term(), kit.now) == []
    assert await store.load_evidence([SHOP]) == []
    await store.want_evidence()
    (first,) = await store.put_grants(change, await kit.term(), kit.now)
    (second,) = await store.put_grants(change, await kit.term(), kit.now)
    assert [row.record.blocked for row in (first, second)] == [1.0, 2.0]
    assert second.record.last_blocked_at == kit.now
    assert await kit.second.load_evidence([SHOP]) == [second]
