"""Retention: what is old and over goes, what is young or alive stays."""

import asyncio

from crawlfleet.model.principal import Role
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.claims import Claim
from crawlfleet.ports.identity import NewAuditEntry, NewToken
from crawlfleet.ports.store import Store
from crawlfleet.ports.upkeep import Pruned
from crawlfleet.testing.factories import EVERYTHING, Kit

DAY_MS = 24 * 3_600_000
ROUNDS = 30


async def an_old_final_task_goes_with_all_that_belongs_to_it(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    term = await kit.term()
    assert await store.prune(term, kit.later(2 * DAY_MS), DAY_MS, EVERYTHING * DAY_MS, 100) == Pruned([task], 1)
    assert await kit.second.tasks([task]) == {}
    assert await kit.second.executions(task) == []
    assert await kit.second.dead_letters(10) == []
    assert await kit.second.totals() == await kit.second.count_rows() == {}


async def a_young_final_task_stays(store: Store, kit: Kit) -> None:
    task = await kit.ended_completed()
    async with _nothing_goes(kit):
        await store.prune(await kit.term(), kit.later(DAY_MS - 1), DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.COMPLETED


async def a_live_task_stays_however_old(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    await store.prune(await kit.term(), kit.later(365 * DAY_MS), DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.PENDING


async def an_old_task_that_ended_lately_stays(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    kit.later(10 * DAY_MS)
    await kit.cancel(task)
    await store.prune(await kit.term(), kit.now, DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.CANCELLED


async def no_more_tasks_go_at_once_than_asked(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    await kit.cancel(*tasks)
    term = await kit.term()
    kit.later(2 * DAY_MS)
    assert await store.prune(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2) == Pruned(tasks[:2], 2)
    assert await kit.second.totals() == await kit.second.count_rows() == {TaskStatus.CANCELLED: 3}
    while (await store.prune(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2)).rows:
        pass
    assert await kit.second.totals() == {}


async def old_events_go_and_young_ones_stay(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    await kit.events()
    kit.later(2 * DAY_MS)
    young = await kit.submit(2)
    before = await kit.events()
    await store.prune(await kit.term(), kit.now, EVERYTHING * DAY_MS, DAY_MS, 100)
    kept = await kit.second.events_after(0, EVERYTHING)
    assert [event.data["task"] for event in kept] == young
    assert kept == before[-2:]


async def numbers_go_on_after_all_events_went(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    last = (await kit.events())[-1].number
    kit.later(2 * DAY_MS)
    await store.prune(await kit.term(), kit.now, EVERYTHING * DAY_MS, 0, 100)
    await kit.submit_one()
    assert (await kit.events())[-1].number == last + 1


async def pages_go_on_from_a_number_whose_event_went(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    await kit.events()
    kit.later(2 * DAY_MS)
    young = await kit.submit(2)
    await kit.events()
    await store.prune(await kit.term(), kit.now, EVERYTHING * DAY_MS, DAY_MS, 100)
    assert [event.data["task"] for event in await kit.second.events_after(1, 10)] == young


async def old_heartbeats_go(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.note_heartbeats([(node, b"{}")], term, kit.now)
    young = kit.later(2 * DAY_MS)
    await store.note_heartbeats([(node, b"{}")], term, young)
    await store.prune(term, kit.now, DAY_MS, DAY_MS, 100)
    assert [row[1] for row in (await kit.dump())["heartbeat"]] == [young]


async def keys_past_their_time_go(store: Store, kit: Kit) -> None:
    for key, expires_at in (("old", kit.now + 1_000), ("young", kit.now + 2_000)):
        await kit.add([kit.new_task()], claim=Claim("shop", key, b"body", expires_at))
    await store.prune(await kit.term(), kit.later(1_000), DAY_MS, DAY_MS, 100)
    (kept,) = (await kit.dump())["idempotency"]
    assert "young" in kept[0]


async def old_audit_entries_go_a_few_at_a_time(store: Store, kit: Kit) -> None:
    for _ in range(3):
        await _note(store, kit)
    kit.later(2 * DAY_MS)
    await _note(store, kit)
    term = await kit.term()
    rows = [(await store.prune(term, kit.now, DAY_MS, DAY_MS, 2, keep_audit_ms=DAY_MS)).rows for _ in range(3)]
    assert rows == [2, 1, 0]
    assert [entry.at for entry in await kit.second.audit_page(10)] == [kit.now]


async def the_audit_log_is_kept_for_a_year(store: Store, kit: Kit) -> None:
    await _note(store, kit)
    term = await kit.term()
    for later, kept in ((365 * DAY_MS, 1), (1, 0)):
        await store.prune(term, kit.later(later), DAY_MS, DAY_MS, 100)
        assert len(await kit.second.audit_page(10)) == kept


async def enrolments_that_are_over_go_and_other_tokens_stay(store: Store, kit: Kit) -> None:
    for n in range(3):
        await store.add_token(NewToken(Role.ENROL, "expired", f"expired {n}", "ann", kit.now + 1, 1), kit.now)
    revoked = await store.add_token(NewToken(Role.ENROL, "revoked", "revoked", "ann"), kit.now)
    await store.revoke_token(revoked.id, kit.now)
    kept = [
        await store.add_token(NewToken(Role.ENROL, "good", "good", "ann", kit.now + 9 * DAY_MS, 1), kit.now),
        await store.add_token(NewToken(Role.VIEWER, "expired viewer", "viewer", "ann", kit.now + 1), kit.now),
    ]
    term = await kit.term()
    kit.later(2 * DAY_MS)
    assert (await store.prune(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2)).rows == 2
    assert (await store.prune(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 100)).rows == 2
    assert [token.id for token in await kit.second.tokens()] == [token.id for token in reversed(kept)]


async def _note(store: Store, kit: Kit) -> None:
    await store.note_change(NewAuditEntry(kit.now, None, "ann", None, None, "127.0.0.1", "task.cancel", "t", b"{}"))


async def nothing_old_means_nothing_goes(store: Store, kit: Kit) -> None:
    await kit.submit_one()
    term = await kit.term()
    await kit.events()
    async with kit.unchanged():
        assert await store.prune(term, kit.now, DAY_MS, DAY_MS, 100) == Pruned([], 0)


async def a_task_retried_at_the_moment_it_would_go_is_kept_whole_or_gone_whole(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(ROUNDS):
        task = await kit.submit_one()
        await kit.cancel(task)
        kit.later(2 * DAY_MS)
        calls = [
            store.prune(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 100),
            kit.second.reopen([task], kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        dump = await kit.dump()
        places = [name for name in ("task", "live", "done") if any(row[0] == task for row in dump[name])]
        assert places in ([], ["task", "live"])
        await kit.cancel(task)
        await store.drop([task], kit.now)
    assert await kit.second.totals() == await kit.second.count_rows()


def _nothing_goes(kit: Kit) -> "_NothingGoes":
    return _NothingGoes(kit)


class _NothingGoes:
    """The tables of tasks lose no row."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def __aenter__(self) -> None:
        await self._kit.term()
        self._before = await self._kit.dump()

    async def __aexit__(self, *_: object) -> None:
        after = await self._kit.dump()
        for name in ("task", "live", "done", "execution", "dead_letter", "event_log", "outbox"):
            assert after[name] == self._before[name], name
