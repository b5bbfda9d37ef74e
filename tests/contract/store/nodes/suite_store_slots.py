"""Slots of nodes: by hand, by load, and whose word wins."""

import asyncio

from crawlfleet.ports.node_store import SlotChange
from crawlfleet.ports.store import Store
from testkit.factories import Kit

ROUNDS = 10


async def what_the_load_allows_is_told_with_the_next_renewal(store: Store, kit: Kit) -> None:
    node = await kit.node()
    term = await kit.term()
    assert await store.scale_slots([SlotChange(node.id, 10, 12, "room for more")], term, kit.now) == {node.id}
    renewed = await kit.renew(node)
    assert (renewed.slots_wanted, renewed.slots_measured, renewed.follows_load) == (None, 12, False)
    (record,) = await kit.second.load_nodes([node.id])
    assert (record.slots_wanted, record.slots_measured, record.follows_load) == (None, 12, False)
    event = (await kit.events())[-1]
    told = {"node": node.id, "old": 10, "new": 12, "reason": "room for more"}
    assert (event.kind, event.data) == ("node.slots_changed", told)


async def a_person_s_number_wins_over_the_load(store: Store, kit: Kit) -> None:
    node, other = await kit.node(), await kit.node()
    term = await kit.term()
    await store.set_slots(node.id, 3, kit.now)
    changes = [SlotChange(one.id, 10, 12, "room for more") for one in (node, other)]
    assert await store.scale_slots(changes, term, kit.now) == {other.id}
    assert (await kit.renew(node)).slots_measured is None


async def a_person_s_number_wins_at_the_same_moment_too(store: Store, kit: Kit) -> None:
    node, term = await kit.node(), await kit.term()
    for _ in range(ROUNDS):
        await store.set_slots(node.id, None, kit.now)
        calls = [
            store.set_slots(node.id, 3, kit.now),
            kit.second.scale_slots([SlotChange(node.id, 10, 12, "room for more")], term, kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        assert (await kit.second.load_nodes([node.id]))[0].slots == 3


async def a_person_may_want_one_node_to_follow_its_load(store: Store, kit: Kit) -> None:
    node = await kit.node()
    assert await store.set_slots(node.id, None, kit.now, follows_load=True)
    assert (await kit.renew(node)).follows_load
    assert await store.set_slots(node.id, 4, kit.now)
    assert not (await kit.renew(node)).follows_load
    assert await store.set_slots(node.id, None, kit.now)
    told = [
        (event.data["old"], event.data["new"], event.data["reason"])
        for event in await kit.events()
        if event.kind == "node.slots_changed"
    ]
    assert told == [(was, now, "set by hand") for was, now in (("default", "auto"), ("auto", 4), (4, "default"))]


async def setting_the_same_again_tells_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.set_slots(node.id, 4, kit.now)
    async with kit.unchanged():
        assert await store.set_slots(node.id, 4, kit.now)


async def a_node_that_is_gone_is_not_scaled(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.unregister_node(node, kit.now)
    async with kit.unchanged():
        changes = [SlotChange(node, 1, 2, "more"), SlotChange(12_345, 1, 2, "more")]
        assert await store.scale_slots(changes, term, kit.now) == set()
