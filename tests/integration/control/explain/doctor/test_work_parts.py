"""Parts of the snapshot about work, read from real stores."""

from __future__ import annotations

import pytest

from crawlfleet.control.explain.doctor.work_parts import MAX_LANES, WorkParts
from crawlfleet.errors import Unavailable
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.model.principal import Role
from crawlfleet.ports.admin_store import NewAuditEntry
from crawlfleet.scheduling.doctor.snapshot import QueuePause, RunningPart, TypeFigures
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit


def parts(store: SqlStore, kit: Kit) -> WorkParts:
    return WorkParts(store, kit.now, 300)


async def test_lanes_that_wait_are_read_with_their_counts_and_oldest_task(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    node = await kit.node(task_types=("echo",), slots=4)
    await kit.run(node, 2)
    shop = await kit.submit(3)
    kit.later(60_000)
    other = await kit.known_lane("news", priority=9)
    await kit.submit(1, lane=other)
    work = await parts(store, kit).read_work()
    assert [(each.lane.project, each.lane.priority, each.waiting) for each in work.lanes] == [
        ("shop", 5, 3),
        ("news", 9, 1),
    ]
    assert work.lanes[0].oldest_at <= kit.now - 60_000
    assert work.lanes[0].timeout_s == (await kit.live(shop[0])).timeout_s
    assert (dict(work.running_by_project), work.left_out) == ({"shop": 2}, 0)


async def test_only_the_oldest_of_many_lanes_are_read(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    for number in range(MAX_LANES + 3):
        await kit.submit(1, lane=await kit.known_lane(f"p{number}"))
    work = await parts(store, kit).read_work()
    assert (len(work.lanes), work.left_out) == (MAX_LANES, 3)
    assert work.lanes[0].lane.project == "p0"


async def test_pauses_are_read_with_who_made_them(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    for queue in ("a", "b", "c"):
        await store.set_queue_paused(queue, True, kit.now)
    for action, target, details in (("queue.pause", "a", b"{}"), ("queues.pause", "queues", b'{"names": ["b", "x"]}')):
        await store.add_audit_entry(
            NewAuditEntry(kit.now, Role.ADMIN, "ann", 1, None, "127.0.0.1", action, target, details)
        )
    work = await parts(store, kit).read_work()
    assert work.paused == {"a": QueuePause(kit.now, "ann"), "b": QueuePause(kit.now, "ann"), "c": QueuePause()}


async def test_nodes_are_read_with_the_sessions_that_masters_counted(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    node = await kit.node()
    removed = await kit.join()
    await store.unregister_node(removed, kit.now)
    reader = parts(store, kit)
    records = [
        MasterRecord(MasterIdentity(number, "m", 0, "1"), 0, 0, MasterFigures(sessions={node.id: 4}))
        for number in (1, 2)
    ]
    reader.add_sessions(RunningPart(records))
    part = await reader.read_nodes()
    assert [each.id for each in part.nodes] == [node.id]
    assert part.sessions == {node.id: 8}


async def test_counters_are_compared_with_the_rows(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = await Kit.open(store, store)
    await kit.submit(3)
    await kit.ended_completed()
    part = await parts(store, kit).read_counters()
    assert part.counters == part.rows == {"pending": 3, "completed": 1}
    monkeypatch.setattr("crawlfleet.control.explain.doctor.work_parts.MAX_COUNTED_TASKS", 3)
    with pytest.raises(Unavailable, match="4 tasks are too many to count here"):
        await parts(store, kit).read_counters()


async def test_the_history_of_a_day_is_read_by_type(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    assert (await parts(store, kit).read_history()).types == {}
    for _ in range(3):
        await kit.ended_completed()
    await store.fold_counters(await kit.term())
    history = await parts(store, kit).read_history()
    figures = history.types["echo"]
    assert isinstance(figures, TypeFigures)
    assert (figures.ends, figures.timeouts, history.timeout_s) == (3, 0, 300)
    kit.later(3 * 86_400_000)
    assert (await parts(store, kit).read_history()).types["echo"].ends == 0


async def test_schedules_and_hosts_of_an_empty_store(store: SqlStore) -> None:
    kit = await Kit.open(store, store)
    reader = parts(store, kit)
    assert list((await reader.read_schedules()).schedules) == []
    assert list((await reader.read_hosts()).hosts) == []
