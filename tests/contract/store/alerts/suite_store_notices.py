"""Notices: taken by lease, sent, marked; a crash in between repeats one with the same id, and loses none."""

from dataclasses import replace

from crawlfleet.model.alerts.alert import AlertChannel, Silence
from crawlfleet.model.notice import Notice, NoticeState, Severity
from crawlfleet.ports.alert_store import AlertChanges, ChannelResult, NewNotice, NoticeStatus, SendResult
from crawlfleet.ports.store import Store
from testkit.factories import Kit

LEASE_MS = 30_000
NOTICE = Notice("n", NoticeState.FIRING, "node_down", Severity.WARNING, "node:a", 1, why="it is silent")


async def _write_notices(store: Store, kit: Kit, count: int, channel: str = "ops") -> list[int]:
    await store.put_channel(AlertChannel(channel, "slack", {}))
    ids = kit.ids.new_ids(count)
    new = [NewNotice(number, channel, replace(NOTICE, id=f"n-{number}")) for number in ids]
    await store.record_alerts(AlertChanges(notices=new), kit.now, await kit.term())
    return ids


async def a_leased_notice_is_not_given_to_another_master_until_the_lease_ends(store: Store, kit: Kit) -> None:
    first, second = await _write_notices(store, kit, 2)
    taken = await store.lease_notices(kit.now, LEASE_MS, 1)
    assert [notice.id for notice in taken] == [first]
    assert [notice.id for notice in await kit.second.lease_notices(kit.now, LEASE_MS, 10)] == [second]
    assert await kit.second.lease_notices(kit.now + LEASE_MS - 1, LEASE_MS, 10) == []
    again = await kit.second.lease_notices(kit.now + LEASE_MS, LEASE_MS, 10)
    assert [notice.id for notice in again] == [first, second]
    assert again[0].notice == taken[0].notice


async def a_delivered_notice_is_never_sent_again(store: Store, kit: Kit) -> None:
    [number] = await _write_notices(store, kit, 1)
    await store.lease_notices(kit.now, LEASE_MS, 1)
    sent = SendResult(number, NoticeStatus.DELIVERED, "ok", kit.now)
    await store.record_sending([sent], [ChannelResult("ops", True, "ok")], kit.now + 5)
    assert await store.lease_notices(kit.now + 10 * LEASE_MS, LEASE_MS, 10) == []
    assert await store.next_notice_at() is None
    [stored] = await kit.second.notice_page(10, channel="ops", status=NoticeStatus.DELIVERED)
    assert (stored.tries, stored.tried_at, stored.answer, stored.leased_until) == (1, kit.now + 5, "ok", None)
    [channel] = (await kit.second.load_alerts(kit.now)).channels
    assert (channel.failures, channel.last_sent_at, channel.last_answer) == (0, kit.now + 5, "ok")
    assert await kit.second.sent_instants("ops", kit.now, 10) == [kit.now + 5]


async def a_refused_notice_is_due_later_and_its_channel_counts_it(store: Store, kit: Kit) -> None:
    [number] = await _write_notices(store, kit, 1)
    await store.lease_notices(kit.now, LEASE_MS, 1)
    refused = SendResult(number, NoticeStatus.DUE, "errcode 310000", kit.now + 5_000)
    await store.record_sending([refused], [ChannelResult("ops", False, "errcode 310000")], kit.now)
    assert await store.lease_notices(kit.now + 4_999, LEASE_MS, 10) == []
    assert await store.next_notice_at() == kit.now + 5_000
    await store.record_sending([refused], [ChannelResult("ops", False, "errcode 310000")], kit.now + 9)
    [channel] = (await kit.second.load_alerts(kit.now)).channels
    assert (channel.failures, channel.failing_since) == (2, kit.now)
    await store.put_channel(replace(channel, changed_at=kit.now + 10))
    assert len(await store.lease_notices(kit.now + 10, LEASE_MS, 10)) == 1


async def a_service_that_wants_to_be_left_alone_holds_all_notices_of_its_channel(store: Store, kit: Kit) -> None:
    first, _ = await _write_notices(store, kit, 2)
    await _write_notices(store, kit, 1, "mail")
    refused = SendResult(first, NoticeStatus.DUE, "429", kit.now + 5_000)
    wait_until = kit.now + 600_000
    await store.record_sending([refused], [ChannelResult("ops", False, "429", wait_until)], kit.now)
    assert [notice.channel for notice in await store.lease_notices(kit.now, LEASE_MS, 10)] == ["mail"]
    assert await store.lease_notices(wait_until - 1, LEASE_MS, 10) != []
    held = await store.lease_notices(wait_until, LEASE_MS, 10)
    assert [notice.channel for notice in held] == ["ops", "ops"]


async def a_channel_that_is_gone_is_disabled_and_its_notices_wait(store: Store, kit: Kit) -> None:
    first, second = await _write_notices(store, kit, 2)
    result = ChannelResult("ops", False, "410 Gone", disabled_why="the service says that it is gone")
    await store.record_sending([SendResult(first, NoticeStatus.DUE, "410 Gone", kit.now)], [result], kit.now)
    assert await store.lease_notices(kit.now + LEASE_MS, LEASE_MS, 10) == []
    assert await store.next_notice_at() is None
    [channel] = (await kit.second.load_alerts(kit.now)).channels
    assert (channel.is_enabled, channel.disabled_why) == (False, "the service says that it is gone")
    await store.put_channel(replace(channel, is_enabled=True, changed_at=kit.now))
    assert [notice.id for notice in await store.lease_notices(kit.now, LEASE_MS, 10)] == [first, second]


async def a_removed_channel_takes_its_waiting_notices_along(store: Store, kit: Kit) -> None:
    await _write_notices(store, kit, 1)
    assert await store.drop_channel("ops")
    assert await kit.second.notice_page(10) == []


async def a_digest_replaces_notices_as_a_whole(store: Store, kit: Kit) -> None:
    ids = await _write_notices(store, kit, 3)
    await store.lease_notices(kit.now, LEASE_MS, 10)
    digest = NewNotice(kit.ids.new_id(), "ops", replace(NOTICE, id="digest", state=NoticeState.DIGEST))
    assert await store.merge_into_digest(digest, ids[:2], LEASE_MS, kit.now)
    async with kit.unchanged():
        other = NewNotice(kit.ids.new_id(), "ops", NOTICE)
        assert not await store.merge_into_digest(other, ids[1:], LEASE_MS, kit.now)
    merged = await kit.second.notice_page(10, status=NoticeStatus.MERGED)
    assert [(notice.id, notice.merged_into) for notice in merged] == [(ids[1], digest.id), (ids[0], digest.id)]
    # It is in the hands of the master that made it, as the notices were.
    assert await store.lease_notices(kit.now, LEASE_MS, 10) == []
    assert {notice.id for notice in await store.lease_notices(kit.now + LEASE_MS, LEASE_MS, 10)} == {ids[2], digest.id}


async def a_notice_given_back_is_due_when_its_channel_is_free(store: Store, kit: Kit) -> None:
    ids = await _write_notices(store, kit, 1)
    await store.lease_notices(kit.now, LEASE_MS, 10)
    await store.release_notices(ids, kit.now + 100)
    assert await store.lease_notices(kit.now + 99, LEASE_MS, 10) == []
    [notice] = await store.lease_notices(kit.now + 100, LEASE_MS, 10)
    assert notice.tries == 0


async def notices_are_paged_newest_first(store: Store, kit: Kit) -> None:
    ids = await _write_notices(store, kit, 5)
    page = await kit.second.notice_page(2)
    assert [notice.id for notice in page] == ids[:-3:-1]
    assert [notice.id for notice in await kit.second.notice_page(10, before=page[-1].id)] == ids[2::-1]


async def old_notices_are_dropped_and_due_ones_kept(store: Store, kit: Kit) -> None:
    first, second = await _write_notices(store, kit, 2)
    await store.add_silence(Silence(3, {"rule": "*"}, kit.now, kit.now + 10, "", "ann", kit.now))
    await store.record_sending([SendResult(first, NoticeStatus.DELIVERED, "ok", kit.now)], [], kit.now)
    term = await kit.term()
    assert await store.drop_old_notices(term, kit.now, 10) == 0
    assert await store.drop_old_notices(term, kit.now + 60_000, 10) == 2
    assert [notice.id for notice in await kit.second.notice_page(10)] == [second]
    assert await kit.second.list_silences(10) == []
