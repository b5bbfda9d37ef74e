"""States of alerts, and what people configure of them."""

from dataclasses import replace

import pytest

from crawlfleet.errors import Conflict, NotFound, NotLeader, OverLimit
from crawlfleet.model.alerts.alert import AlertChannel, AlertGroup, AlertState, AlertStatus, Announced, Silence
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.ports.alert_store import CHANNELS_MAX, AlertChanges, NewNotice, RuleChange
from crawlfleet.ports.leadership_store import LeaderRow
from crawlfleet.ports.store import Store
from testkit.factories import Kit

FIRING = AlertState(
    "node_down",
    "node:a b",
    AlertStatus.FIRING,
    5,
    4,
    0.25,
    5,
    "it is silent",
    "cluster:eu",
    "",
    (1, 2),
    None,
    Announced.FIRING,
    6,
    2,
    7,
)
NOTICE = Notice("n-1", NoticeState.FIRING, "node_down", Severity.WARNING, "node:a", 1)


async def alerts_are_read_as_they_were_written(store: Store, kit: Kit) -> None:
    group = AlertGroup("node_down", "node", 10, None)
    term = await kit.term()
    await store.record_alerts(AlertChanges([FIRING], groups=[group]), kit.now, term)
    book = await kit.second.load_alerts(kit.now)
    assert (book.states, book.groups) == ({FIRING.key: FIRING}, {group.key: group})
    ok = replace(FIRING, status=AlertStatus.OK)
    await store.record_alerts(AlertChanges([ok], groups=[replace(group, due_at=None, sent_at=11)]), kit.now, term)
    book = await kit.second.load_alerts(kit.now)
    assert book.states == {FIRING.key: ok}
    assert book.groups == {group.key: AlertGroup("node_down", "node", None, 11)}
    await store.record_alerts(AlertChanges(forgotten=[FIRING.key], forgotten_groups=[group.key]), kit.now, term)
    book = await kit.second.load_alerts(kit.now)
    assert (book.states, book.groups) == ({}, {})


async def a_state_and_its_notices_are_written_under_the_term_or_not_at_all(store: Store, kit: Kit) -> None:
    term = await kit.term()
    changes = AlertChanges([FIRING], notices=[NewNotice(1, "ops", NOTICE)])
    async with kit.unchanged():
        with pytest.raises(NotLeader):
            await store.record_alerts(changes, kit.now, term - 1)
    await store.record_alerts(changes, kit.now, term)
    [stored] = await kit.second.notice_page(10)
    assert (stored.id, stored.channel, stored.notice) == (1, "ops", NOTICE)


async def a_silent_leader_is_reported_by_one_master(store: Store, kit: Kit) -> None:
    await kit.term()
    leader = await store.read_leader()
    changes = AlertChanges([FIRING], notices=[NewNotice(1, "ops", NOTICE)])
    async with kit.unchanged():
        stale = LeaderRow(leader.term, leader.holder, leader.beats - 1)
        assert not await store.record_unled_alerts(changes, kit.now, stale)
    assert await store.record_unled_alerts(changes, kit.now, leader)
    async with kit.unchanged():
        again = replace(changes, notices=[NewNotice(2, "ops", NOTICE)])
        assert not await kit.second.record_unled_alerts(again, kit.now, leader)


async def an_acknowledgement_lasts_until_the_alert_recovers(store: Store, kit: Kit) -> None:
    term = await kit.term()
    with pytest.raises(NotFound):
        await store.acknowledge_alert("node_down", "node:a b", "ann", "on it", kit.now)
    await store.record_alerts(AlertChanges([FIRING]), kit.now, term)
    known = await store.acknowledge_alert("node_down", "node:a b", "ann", "on it", kit.now)
    assert (known.acknowledged_at, known.acknowledged_by, known.acknowledged_why) == (kit.now, "ann", "on it")
    # A pass that began before the acknowledgement does not undo it.
    await store.record_alerts(AlertChanges([replace(FIRING, value=0.5)]), kit.now, term)
    assert (await kit.second.load_alerts(kit.now)).states[FIRING.key] == replace(known, value=0.5)
    again = await store.acknowledge_alert("node_down", "node:a b", "bob", "me too", kit.later())
    assert again.acknowledged_by == "bob"
    await store.record_alerts(AlertChanges([replace(FIRING, status=AlertStatus.OK)]), kit.now, term)
    with pytest.raises(Conflict):
        await store.acknowledge_alert("node_down", "node:a b", "ann", "late", kit.now)
    await store.record_alerts(AlertChanges([FIRING]), kit.now, term)
    assert (await kit.second.load_alerts(kit.now)).states[FIRING.key].acknowledged_at is None


async def a_changed_rule_replaces_the_earlier_change(store: Store, kit: Kit) -> None:
    change = RuleChange("node_down", {"for_s": 5, "channels": ["a"]}, kit.now, "ann")
    await store.put_rule_change(RuleChange("node_down", {"for_s": 1}, kit.now, "bob"))
    await store.put_rule_change(change)
    assert (await kit.second.load_alerts(kit.now)).rules == [change]
    assert await store.drop_rule_change("node_down")
    assert not await store.drop_rule_change("node_down")
    assert (await kit.second.load_alerts(kit.now)).rules == []


async def a_channel_is_kept_with_its_fields(store: Store, kit: Kit) -> None:
    channel = AlertChannel("ops", "slack", {"url": "https://x"}, Language.CHINESE, changed_at=kit.now, changed_by="ann")
    await store.put_channel(channel)
    assert (await kit.second.load_alerts(kit.now)).channels == [channel]
    await store.put_channel(replace(channel, is_enabled=False))
    assert (await kit.second.load_alerts(kit.now)).channels == [replace(channel, is_enabled=False)]
    assert await store.drop_channel("ops")
    assert not await store.drop_channel("ops")


async def channels_have_a_limit(store: Store, kit: Kit) -> None:
    for number in range(CHANNELS_MAX):
        await store.put_channel(AlertChannel(f"c{number}", "slack", {}))
    async with kit.unchanged():
        with pytest.raises(OverLimit):
            await store.put_channel(AlertChannel("more", "slack", {}))
    await store.put_channel(AlertChannel("c1", "slack", {}, is_enabled=False))


async def a_silence_is_in_the_book_until_it_is_over(store: Store, kit: Kit) -> None:
    silence = Silence(7, {"rule": "node_*"}, kit.now, kit.now + 100, "moving", "ann", kit.now)
    await store.add_silence(silence)
    assert (await kit.second.load_alerts(kit.now)).silences == [silence]
    assert (await kit.second.load_alerts(kit.now + 100)).silences == []
    ended = await store.end_silence(7, kit.now + 10)
    assert ended == replace(silence, until_at=kit.now + 10)
    assert await store.end_silence(7, kit.now + 50) == ended
    assert await kit.second.list_silences(10) == [ended]
    with pytest.raises(NotFound):
        await store.end_silence(8, kit.now)
