"""Retention: what is old and over goes, what is young or alive stays."""

import asyncio

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.model.group import GroupKind
from crawlfleet.model.principal import Role
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.admin_store import NewAuditEntry, NewToken
from crawlfleet.ports.maintenance_store import FinishedFilter, FinishedPage, PruneCursor, Pruned
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Claim
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Tx
from testkit.factories import EVERYTHING, Kit
from testkit.flow_kit import FlowKit

DAY_MS = 24 * 3_600_000
ROUNDS = 30


async def an_old_final_task_goes_with_all_that_belongs_to_it(store: Store, kit: Kit) -> None:
    task = await kit.ended_failed()
    term = await kit.term()
    assert await store.prune_rows(term, kit.later(2 * DAY_MS), DAY_MS, EVERYTHING * DAY_MS, 100) == Pruned([task], 1)
    assert await kit.second.load_tasks([task]) == {}
    assert await kit.second.task_executions(task) == []
    assert await kit.second.dead_letters(10) == []
    assert await kit.second.task_totals() == await kit.second.count_rows() == {}


async def a_young_final_task_stays(store: Store, kit: Kit) -> None:
    task = await kit.ended_completed()
    async with _nothing_goes(kit):
        await store.prune_rows(await kit.term(), kit.later(DAY_MS - 1), DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.COMPLETED


async def a_live_task_stays_however_old(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    await store.prune_rows(await kit.term(), kit.later(365 * DAY_MS), DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.PENDING


async def an_old_task_that_ended_lately_stays(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    kit.later(10 * DAY_MS)
    await kit.cancel(task)
    await store.prune_rows(await kit.term(), kit.now, DAY_MS, DAY_MS, 100)
    assert await kit.status(task) is TaskStatus.CANCELLED


async def a_step_that_ended_long_ago_stays_while_its_flow_runs(store: Store, kit: Kit) -> None:
    parameters = {"n": {"$from": "steps.a.result.n"}}
    flow = await FlowKit.stored(kit, {"a": {}, "b": {}, "c": {"after": ["a", "b"], "parameters": parameters}})
    await flow.complete("a", {"n": 7})
    kit.later(40 * DAY_MS)
    await _prune_all(store, kit)
    await flow.complete("b")
    assert await flow.words() == {"a": "completed", "b": "completed", "c": "pending"}
    assert await flow.parameters("c") == {"n": 7}


async def a_flow_goes_as_one_when_all_of_it_ended_long_ago(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"]}})
    await flow.complete("a")
    kit.later(40 * DAY_MS)
    await flow.complete("b")
    await store.settle_groups(await kit.term(), kit.now)
    kit.later(DAY_MS)
    await _prune_all(store, kit)
    assert await flow.words() == {"a": "completed", "b": "completed"}
    kit.later(1)
    await _prune_all(store, kit)
    dump = await kit.dump()
    assert [dump[name] for name in ("task", "done", "flow_step", "task_group")] == [[]] * 4


async def a_member_stays_while_its_group_is_needed_as_one(store: Store, kit: Kit) -> None:
    for fields in ({"kind": GroupKind.SHARDS}, {"is_closed": True}):
        group = await kit.group()
        ended = await kit.ended_completed(group=group)
        open_member = await kit.submit_one(group=group)
        await kit.second.engine.write(
            lambda tx, group=group, fields=fields: tx.execute(  # type: ignore[misc]
                "UPDATE task_group SET kind = $2, is_closed = $3 WHERE id = $1",
                group,
                int(fields.get("kind", GroupKind.GROUP)),
                int(fields.get("is_closed", False)),
            )
        )
        kit.later(40 * DAY_MS)
        await _prune_all(store, kit)
        assert await kit.status(ended) is TaskStatus.COMPLETED
        await kit.cancel(open_member)
        await store.settle_groups(await kit.term(), kit.now)
        kit.later(2 * DAY_MS)
        await _prune_all(store, kit)
        assert await kit.second.load_tasks([ended, open_member]) == {}


async def tasks_that_stay_do_not_stand_in_the_way_of_others(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {**{f"s{n}": {} for n in range(5)}, "last": {}})
    for key in ("s0", "s1", "s2", "s3", "s4"):
        await flow.complete(key)
    old = await kit.submit(5)
    await kit.cancel(*old)
    kit.later(40 * DAY_MS)
    await _prune_all(store, kit, limit=2)
    assert await kit.second.load_tasks(old) == {}
    assert (await flow.words())["s0"] == "completed"


async def large_results_go_a_few_at_a_time(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(6)
    await kit.cancel(*tasks)
    big = b"x" * (12 << 20)
    for task in tasks:
        await kit.second.engine.write(
            lambda tx, task=task: tx.update(schema.task, ("id", "parameters"), [(task, big)])  # type: ignore[misc]
        )
    kit.later(2 * DAY_MS)
    term = await kit.term()
    sizes, cursor = [], PruneCursor()
    for _ in range(4):
        pruned = await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 100, after=cursor)
        sizes.append(len(pruned.tasks))
        cursor = pruned.cursor
    assert sizes == [2, 2, 2, 0]


async def no_more_tasks_go_at_once_than_asked(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(5)
    await kit.cancel(*tasks)
    term = await kit.term()
    kit.later(2 * DAY_MS)
    pruned = await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2)
    assert pruned == Pruned(tasks[:2], 2, PruneCursor(task=tasks[1]), is_more=True)
    assert await kit.second.task_totals() == await kit.second.count_rows() == {TaskStatus.CANCELLED: 3}
    while (await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2)).rows:
        pass
    assert await kit.second.task_totals() == {}


async def old_events_go_and_young_ones_stay(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    await kit.events()
    kit.later(2 * DAY_MS)
    young = await kit.submit(2)
    before = await kit.events()
    await store.prune_rows(await kit.term(), kit.now, EVERYTHING * DAY_MS, DAY_MS, 100)
    kept = await kit.second.events_after(0, EVERYTHING)
    assert [event.data["task"] for event in kept] == young
    assert kept == before[-2:]


async def no_more_rows_of_any_table_go_at_once_than_asked(store: Store, kit: Kit) -> None:
    """Each table loses at most so many with each call, and all that is due with enough of them."""
    node, term = await kit.join(), await kit.term()
    limit, count = 3, 8
    for n in range(count):
        await kit.submit_one()
        await kit.events()
        await store.add_heartbeats([(node, b"{}")], term, kit.later())
        await kit.add([kit.new_task()], claim=Claim("shop", f"key {n}", b"body", kit.now))
    await _write_rows(kit, term, count)
    kit.later(400 * DAY_MS)
    due = ("event_log", "heartbeat", "idempotency", "evidence", "day_use", "day_slice", "tick", "schedule")
    before = await kit.dump()
    assert all(len(before[name]) >= count for name in due), {name: len(before[name]) for name in due}
    while True:
        pruned = await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, limit)
        after = await kit.dump()
        lost = {name: len(before[name]) - len(after[name]) for name in due}
        assert all(count <= limit for count in lost.values()), lost
        before = after
        if not pruned.is_more:
            break
    kept = {"event_log": 1, "heartbeat": 0, "idempotency": 0, "evidence": 0, "day_use": 0, "day_slice": 0, "tick": 0}
    assert {name: len(before[name]) for name in kept} == kept


async def numbers_go_on_after_all_events_went(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    last = (await kit.events())[-1].number
    kit.later(2 * DAY_MS)
    await store.prune_rows(await kit.term(), kit.now, EVERYTHING * DAY_MS, 0, 100)
    await kit.submit_one()
    assert (await kit.events())[-1].number == last + 1


async def pages_go_on_from_a_number_whose_event_went(store: Store, kit: Kit) -> None:
    await kit.submit(3)
    await kit.events()
    kit.later(2 * DAY_MS)
    young = await kit.submit(2)
    await kit.events()
    await store.prune_rows(await kit.term(), kit.now, EVERYTHING * DAY_MS, DAY_MS, 100)
    assert [event.data["task"] for event in await kit.second.events_after(1, 10)] == young


async def old_heartbeats_go(store: Store, kit: Kit) -> None:
    node, term = await kit.join(), await kit.term()
    await store.add_heartbeats([(node, b"{}")], term, kit.now)
    young = kit.later(2 * DAY_MS)
    await store.add_heartbeats([(node, b"{}")], term, young)
    await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, 100)
    assert [row[1] for row in (await kit.dump())["heartbeat"]] == [young]


async def keys_past_their_time_go(store: Store, kit: Kit) -> None:
    for key, expires_at in (("old", kit.now + 1_000), ("young", kit.now + 2_000)):
        await kit.add([kit.new_task()], claim=Claim("shop", key, b"body", expires_at))
    await store.prune_rows(await kit.term(), kit.later(1_000), DAY_MS, DAY_MS, 100)
    (kept,) = (await kit.dump())["idempotency"]
    assert "young" in kept[0]


async def chunks_of_forgotten_tasks_are_listed_until_they_were_removed(store: Store, kit: Kit) -> None:
    pruned, dropped = await kit.ended_failed(), await kit.ended_failed()
    term = await kit.term()
    assert await store.unremoved_chunks(10) == []
    await store.drop_tasks([dropped], kit.now)
    assert await kit.second.unremoved_chunks(10) == [dropped]
    await store.prune_rows(term, kit.later(2 * DAY_MS), DAY_MS, EVERYTHING * DAY_MS, 100)
    assert await kit.second.unremoved_chunks(10) == sorted([pruned, dropped])
    assert await kit.second.unremoved_chunks(1) == [min(pruned, dropped)]
    await store.mark_chunks_removed(term, [pruned])
    assert await kit.second.unremoved_chunks(10) == [dropped]


async def the_mark_of_the_clock_is_kept(store: Store, kit: Kit) -> None:
    assert await store.clock_mark() is None
    term = await kit.term()
    for at in (kit.now, kit.later()):
        await store.set_clock_mark(term, at)
        assert await kit.second.clock_mark() == at


async def old_audit_entries_go_a_few_at_a_time(store: Store, kit: Kit) -> None:
    for _ in range(3):
        await _note(store, kit)
    kit.later(2 * DAY_MS)
    await _note(store, kit)
    term = await kit.term()
    rows = [(await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, 2, keep_audit_ms=DAY_MS)).rows for _ in range(3)]
    assert rows == [2, 1, 0]
    assert [entry.at for entry in await kit.second.audit_page(10)] == [kit.now]


async def the_audit_log_is_kept_for_a_year(store: Store, kit: Kit) -> None:
    await _note(store, kit)
    term = await kit.term()
    for later, kept in ((365 * DAY_MS, 1), (1, 0)):
        await store.prune_rows(term, kit.later(later), DAY_MS, DAY_MS, 100)
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
    assert (await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 2)).rows == 2
    assert (await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 100)).rows == 2
    assert [token.id for token in await kit.second.list_tokens()] == [token.id for token in reversed(kept)]


async def _note(store: Store, kit: Kit) -> None:
    await store.add_audit_entry(NewAuditEntry(kit.now, None, "ann", None, None, "127.0.0.1", "task.cancel", "t", b"{}"))


async def nothing_old_means_nothing_goes(store: Store, kit: Kit) -> None:
    await kit.submit_one()
    term = await kit.term()
    await kit.events()
    async with kit.unchanged():
        assert await store.prune_rows(term, kit.now, DAY_MS, DAY_MS, 100) == Pruned([], 0)


async def a_task_retried_at_the_moment_it_would_go_is_kept_whole_or_gone_whole(store: Store, kit: Kit) -> None:
    term = await kit.term()
    for _ in range(ROUNDS):
        task = await kit.submit_one()
        await kit.cancel(task)
        kit.later(2 * DAY_MS)
        calls = [
            store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, 100),
            kit.second.reopen_tasks([task], kit.now),
        ]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        dump = await kit.dump()
        places = [name for name in ("task", "live", "done") if any(row[0] == task for row in dump[name])]
        assert places in ([], ["task", "live"])
        await kit.cancel(task)
        await store.drop_tasks([task], kit.now)
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def _prune_all(store: Store, kit: Kit, limit: int = 100) -> None:
    """As the leader does: until there is no more."""
    term, cursor = await kit.term(), PruneCursor()
    while True:
        pruned = await store.prune_rows(term, kit.now, DAY_MS, EVERYTHING * DAY_MS, limit, after=cursor)
        cursor = pruned.cursor
        if not pruned.is_more:
            return


async def _write_rows(kit: Kit, term: int, count: int) -> None:
    """Old rows of tables whose own verbs would take long to fill them."""
    old = kit.now

    async def work(tx: Tx) -> None:
        for n in range(count):
            await tx.execute(
                "INSERT INTO evidence (id, node, kind, subject, address, ok, failed, blocked, at) "
                "VALUES ($1, $1, 'host', 'x', '', 1, 0, 0, $2)",
                n + 1,
                old,
            )
            await tx.execute("INSERT INTO day_use (project, day, pages, bytes) VALUES ($1, 1, 0, 0)", f"p{n}")
            await tx.execute(
                "INSERT INTO day_slice (execution, task, project, day, number, day_pages, day_bytes, pages, bytes) "
                "VALUES ($1, $1, 'p', 1, 1, 0, 0, 0, 0)",
                n + 1,
            )
            await tx.execute(
                "INSERT INTO schedule (id, project, task_type, task, time_zone, jitter_s, anchor_at, catch_up, "
                "overlap, is_paused, created_at, created_by, changed_at, fired_until, recent, revision) "
                "VALUES ($1, 'p', 'echo', $2, 'UTC', 0, 0, 0, 0, 0, 0, '', 0, 0, $2, 1)",
                n + 1,
                b"[]",
            )
            await tx.execute("INSERT INTO tick (schedule, at, status, made_at) VALUES ($1, $1, 0, $2)", n + 1, old)

    await kit.second.engine.write(work, term)


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


ALL_FINAL = frozenset(status for status in TaskStatus if status.is_final)


async def finished_tasks_are_selected_by_a_filter_in_bounded_windows(store: Store, kit: Kit) -> None:
    completed, failed = await kit.ended_completed(), await kit.ended_failed()
    live = await kit.submit_one()
    wanted = FinishedFilter(kit.later(1), ALL_FINAL)
    assert await store.select_finished(wanted, 0, 100) == FinishedPage([completed, failed], 0, 2, 0)
    assert await store.select_finished(wanted, 0, 1) == FinishedPage([completed], 0, 1, completed)
    assert (await store.select_finished(wanted, completed, 1)).tasks == [failed]
    for other, tasks in (
        (wanted._replace(statuses=frozenset({TaskStatus.FAILED})), [failed]),
        (wanted._replace(project="other"), []),
        (wanted._replace(task_type="other"), []),
        (wanted._replace(before=0), []),
    ):
        assert (await store.select_finished(other, 0, 100)).tasks == tasks
    assert await kit.status(live) is TaskStatus.PENDING


async def finished_tasks_are_removed_with_all_that_belongs_to_them_and_counted(store: Store, kit: Kit) -> None:
    gone, stays = await kit.ended_failed(), await kit.ended_completed()
    live = await kit.submit_one()
    before = kit.later(1)
    assert await store.remove_finished(await kit.term(), kit.now, before, [gone, live]) == [gone]
    assert set(await kit.second.load_tasks([gone, stays, live])) == {stays, live}
    assert await kit.second.dead_letters(10) == []
    assert await kit.second.task_totals() == await kit.second.count_rows()
    assert await store.unremoved_chunks(10) == [gone]
    assert await store.remove_finished(await kit.term(), kit.now, 0, [stays]) == []


async def a_task_that_its_group_needs_is_neither_selected_nor_removed(store: Store, kit: Kit) -> None:
    flow = await FlowKit.stored(kit, {"a": {}, "b": {"after": ["a"]}})
    await flow.complete("a")
    before = kit.later(1)
    page = await store.select_finished(FinishedFilter(before, ALL_FINAL), 0, 100)
    assert (page.tasks, page.needed) == ([], 1)
    step = (await store.select_finished(FinishedFilter(before, ALL_FINAL), 0, 1)).last
    assert await store.remove_finished(await kit.term(), kit.now, before, [step]) == []
    assert (await flow.words())["a"] == "completed"


async def an_old_term_removes_nothing(store: Store, kit: Kit) -> None:
    task = await kit.ended_completed()
    term = await kit.term()
    with pytest.raises(NotLeader):
        await store.remove_finished(term - 1, kit.now, kit.later(1), [task])
    assert await kit.status(task) is TaskStatus.COMPLETED


async def what_is_due_is_counted_up_to_a_limit(store: Store, kit: Kit) -> None:
    await kit.cancel(*await kit.submit(3))
    now = kit.later(2 * DAY_MS)
    due = await store.count_due(now, DAY_MS, DAY_MS, DAY_MS, 100)
    assert (due.tasks, due.audit_entries) == (3, 0)
    assert (await store.count_due(now, DAY_MS, DAY_MS, DAY_MS, 2)).tasks == 2
    assert (await store.count_due(now, 3 * DAY_MS, DAY_MS, DAY_MS, 100)).tasks == 0
    await _prune_all(store, kit)
    assert (await store.count_due(now, DAY_MS, DAY_MS, DAY_MS, 100)).tasks == 0


async def ids_of_no_task_are_found(store: Store, kit: Kit) -> None:
    live, final = await kit.submit_one(), await kit.ended_completed()
    assert await store.tasks_without_row([1, live, 2, final]) == {1, 2}
    assert await store.tasks_without_row([]) == set()
