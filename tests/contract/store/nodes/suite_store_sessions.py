"""Sessions and leases: opened, renewed, ended."""

import asyncio

import pytest

from crawlfleet.errors import NotFound
from crawlfleet.model.execution import End
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ExecutionStatus, NodeStatus, Recall, TaskStatus
from crawlfleet.ports.node_store import LeaseRow, Renewal
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Applied
from testkit.factories import Kit, ReadyNode

ROUNDS = 30
PENDING = TaskStatus.PENDING


async def a_session_is_open_and_its_lease_is_watched(store: Store, kit: Kit) -> None:
    node = await kit.open_session(await kit.join(lease_ms=30_000))
    assert node.session == 1
    assert await kit.second.open_leases() == [LeaseRow(node.id, 1, 0, 30_000)]


async def a_session_brings_the_nodes_slots_and_types(store: Store, kit: Kit) -> None:
    node = await kit.join(name="worker 1", slots=1, region="eu")
    await store.open_session(node, 64, ["echo", "browser"], kit.lose(), kit.now)
    (record,) = await kit.second.load_nodes([node])
    assert (record.description.slots, record.description.task_types) == (64, ("echo", "browser"))
    assert (record.description.name, record.description.region) == ("worker 1", "eu")


async def an_unknown_node_opens_no_session(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        with pytest.raises(NotFound):
            await kit.open_session(12_345)


async def a_removed_node_opens_no_session(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.unregister_node(node.id, kit.now)
    async with kit.unchanged():
        with pytest.raises(NotFound):
            await kit.open_session(node.id)


async def a_new_session_ends_what_the_old_one_held(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    session, applied = await store.open_session(run.node.id, 10, ["echo"], kit.lose(), kit.now)
    assert session == run.node.session + 1
    assert applied is not None
    assert applied.after == {run.task: PENDING}
    assert (applied.freed, applied.ready) == ([(run.node.id, run.execution)], {kit.lane.id: [run.task]})
    (execution,) = await kit.second.task_executions(run.task)
    assert (execution.status, execution.session) == (ExecutionStatus.LOST, run.node.session)


async def a_call_that_opens_a_session_late_ends_nothing(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    async with kit.unchanged():
        for late in (run.node.session - 1, run.node.session + 1):
            answer = await store.open_session(run.node.id, 10, ["echo"], kit.lose(), kit.now, after=late)
            assert answer == (run.node.session, None)
    session, applied = await store.open_session(run.node.id, 10, ["echo"], kit.lose(), kit.now, after=run.node.session)
    assert session == run.node.session + 1
    assert applied is not None


async def a_new_session_leaves_other_nodes_alone(store: Store, kit: Kit) -> None:
    mine, other = await kit.run_one(await kit.node()), await kit.run_one(await kit.node())
    await kit.open_session(mine.node.id)
    assert await kit.status(other.task) is TaskStatus.ASSIGNED


async def outcomes_of_the_old_session_are_stale_after_the_new_one_began(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.online(run.node.id)
    async with kit.unchanged():
        applied = await kit.complete(run)
    assert applied.refused[run.task].code is Code.STALE_EXECUTION


async def the_first_renewal_brings_a_node_online(store: Store, kit: Kit) -> None:
    node = await kit.open_session(await kit.join())
    assert (await kit.second.load_nodes([node.id]))[0].status is NodeStatus.PENDING
    renewed = await kit.renew(node, b'{"cpu":0.5,"running":3}')
    assert (renewed.is_open, renewed.is_newest, renewed.came_online) == (True, True, True)
    assert renewed.status is NodeStatus.ONLINE
    (record,) = await kit.second.load_nodes([node.id])
    assert (record.status, record.renewals, record.renewed_at) == (NodeStatus.ONLINE, 1, kit.now)
    assert record.measurement is not None
    assert (record.measurement.cpu, record.measurement.running) == (0.5, 3)


async def a_departing_session_is_in_maintenance_and_is_given_nothing_until_the_next(store: Store, kit: Kit) -> None:
    node = await kit.node()
    task = await kit.submit_one()
    number = (await kit.second.load_nodes([node.id]))[0].renewals + 1
    # Said once it holds: a call that does not say it must not take it back.
    renewals = [
        Renewal(node.id, node.session, number + more, None, is_departing=is_departing)
        for more, is_departing in enumerate((True, True, False))
    ]
    answers = await store.renew_leases(renewals, kit.now)
    assert [one.began_departing for one in answers] == [True, False, False]
    assert {one.status for one in answers} == {NodeStatus.ONLINE}, "the order to drain is a person's"
    (record,) = await kit.second.load_nodes([node.id])
    assert (record.status, record.is_departing, record.slots) == (NodeStatus.MAINTENANCE, True, 0)
    applied = await kit.second.assign_tasks([await kit.assignment(task, node)], None, kit.now)
    assert applied.refused[task].code is Code.NODE_NOT_READY
    again = await kit.online(node.id)
    (record,) = await kit.second.load_nodes([node.id])
    assert (record.status, record.is_departing, record.slots) == (NodeStatus.ONLINE, False, 10)
    await kit.assign([task], again)


async def a_session_may_be_opened_only_to_hand_over(store: Store, kit: Kit) -> None:
    node = await kit.node()
    task = await kit.submit_one()
    session, _ = await store.open_session(node.id, 10, ["echo"], kit.lose(), kit.now, is_departing=True)
    applied = await kit.second.assign_tasks([await kit.assignment(task, ReadyNode(node.id, session))], None, kit.now)
    assert applied.refused[task].code is Code.NODE_NOT_READY
    assert (await kit.second.load_nodes([node.id]))[0].status is NodeStatus.MAINTENANCE


async def a_departing_node_that_ends_is_offline_unless_a_person_holds_it(store: Store, kit: Kit) -> None:
    for is_held, status in ((False, NodeStatus.OFFLINE), (True, NodeStatus.MAINTENANCE)):
        node = await kit.node()
        if is_held:
            await store.set_maintenance(node.id, kit.now + 60_000, True, kit.now)
        (renewed,) = await store.renew_leases([Renewal(node.id, node.session, 99, None, is_departing=True)], kit.now)
        assert renewed.status is (NodeStatus.MAINTENANCE if is_held else NodeStatus.ONLINE)
        await kit.end(node, NodeStatus.OFFLINE)
        (record,) = await kit.second.load_nodes([node.id])
        assert (record.status, record.is_departing) == (status, False)


async def each_renewal_raises_the_counter(store: Store, kit: Kit) -> None:
    node = await kit.node()
    assert not (await kit.renew(node)).came_online
    assert (await kit.second.open_leases())[0].renewals == 2


async def a_renewal_counts_though_the_wall_clock_jumped_back(store: Store, kit: Kit) -> None:
    node = await kit.node()
    kit.later(-3_600_000)
    assert (await kit.renew(node)).is_newest
    assert (await kit.second.open_leases())[0].renewals == 2


async def a_renewal_tells_what_the_store_gives_the_node(store: Store, kit: Kit) -> None:
    node, other = await kit.node(), await kit.node()
    runs = await kit.run(node, 3)
    await kit.run_one(other)
    await kit.complete(runs[0])
    await kit.cancel(runs[1].task)
    held = {row.id: row for row in (await kit.renew(node)).held}
    assert set(held) == {runs[1].task, runs[2].task}
    assert held[runs[1].task].recall is Recall.CANCEL
    assert held[runs[2].task].execution == runs[2].execution


async def a_renewal_that_is_not_taken_tells_nothing_of_the_work(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await kit.run_one(node)
    (renewed,) = await store.renew_leases([Renewal(node.id, node.session, 1, None)], kit.now)
    assert (renewed.is_newest, list(renewed.held)) == (False, [])


async def an_older_number_renews_nothing(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await store.renew_leases([Renewal(node.id, node.session, 7, None)], kit.now)
    async with kit.unchanged():
        for number in (6, 7):
            (renewed,) = await store.renew_leases([Renewal(node.id, node.session, number, b"{}")], kit.now)
            assert (renewed.is_open, renewed.is_newest) == (True, False)


async def renewals_of_one_node_in_one_call_are_taken_in_order(store: Store, kit: Kit) -> None:
    node = await kit.open_session(await kit.join())
    answers = await store.renew_leases(
        [Renewal(node.id, node.session, number, None) for number in (1, 3, 2, 4)], kit.now
    )
    assert [renewed.is_newest for renewed in answers] == [True, True, False, True]
    assert [renewed.came_online for renewed in answers] == [True, False, False, False]
    assert (await kit.second.open_leases())[0].renewals == 3


async def an_ended_session_is_not_renewed(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await kit.end(node)
    async with kit.unchanged():
        renewed = await kit.renew(node)
    assert (renewed.is_open, renewed.is_newest, renewed.is_removed) == (False, False, False)


async def an_older_session_is_not_renewed(store: Store, kit: Kit) -> None:
    old = await kit.node()
    await kit.open_session(old.id)
    async with kit.unchanged():
        (renewed,) = await store.renew_leases([Renewal(old.id, old.session, 99, None)], kit.now)
    assert (renewed.is_open, renewed.is_newest) == (False, False)


async def an_unknown_node_is_told_that_it_is_removed(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        (renewed,) = await store.renew_leases([Renewal(12_345, 1, 1, None)], kit.now)
    assert (renewed.is_open, renewed.is_newest, renewed.is_removed) == (False, False, True)


async def those_that_cannot_be_renewed_do_not_harm_their_neighbours(store: Store, kit: Kit) -> None:
    good, ended = await kit.node(), await kit.node()
    await kit.end(ended)
    renewals = [Renewal(12_345, 1, 1, None), Renewal(ended.id, 1, 9, None), Renewal(good.id, good.session, 9, None)]
    assert [renewed.is_newest for renewed in await store.renew_leases(renewals, kit.now)] == [False, False, True]


async def renewing_nobody_changes_nothing(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert await store.renew_leases([], kit.now) == []


async def many_nodes_are_renewed_in_one_call(store: Store, kit: Kit) -> None:
    nodes = [await kit.node() for _ in range(20)]
    renewals = [Renewal(node.id, node.session, 2, b'{"cpu":0.1}') for node in kit.rng.sample(nodes, len(nodes))]
    answers = await store.renew_leases(renewals, kit.now)
    assert [renewed.node for renewed in answers] == [renewal.node for renewal in renewals]
    assert {lease.renewals for lease in await kit.second.open_leases()} == {2}


async def a_lost_lease_takes_the_work_back(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    applied = await kit.end(run.node)
    assert applied is not None
    assert applied.after == {run.task: PENDING}
    assert (await kit.second.load_nodes([run.node.id]))[0].status is NodeStatus.UNRESPONSIVE
    assert await kit.second.open_leases() == []
    row = await kit.live(run.task)
    assert (row.losses, row.retries) == (1, 0)


async def a_node_that_left_cleanly_is_offline_and_hands_back_its_work(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await store.end_session(run.node.id, run.node.session, NodeStatus.OFFLINE, kit.take_back(), kit.now)
    assert (await kit.second.load_nodes([run.node.id]))[0].status is NodeStatus.OFFLINE
    assert (await kit.live(run.task)).losses == 0
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.status is ExecutionStatus.RETURNED


async def a_session_that_is_over_is_not_ended_again(store: Store, kit: Kit) -> None:
    node = await kit.node()
    await kit.end(node)
    async with kit.unchanged():
        assert await kit.end(node) is None


async def an_older_session_cannot_be_ended(store: Store, kit: Kit) -> None:
    old = await kit.node()
    await kit.online(old.id)
    async with kit.unchanged():
        assert await kit.end(old) is None


async def the_session_of_an_unknown_node_cannot_be_ended(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert await kit.end(ReadyNode(12_345, 1)) is None


async def a_session_renewed_meanwhile_is_not_ended(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    (seen,) = await kit.second.open_leases()
    await kit.renew(run.node)
    async with kit.unchanged():
        assert await _expire(kit, run.node, seen.renewals) is None


async def a_session_of_the_count_that_was_seen_is_ended(store: Store, kit: Kit) -> None:
    node = await kit.node()
    (seen,) = await kit.second.open_leases()
    assert await _expire(kit, node, seen.renewals) is not None
    assert await kit.second.open_leases() == []


async def a_renewal_and_an_expiry_at_once_have_one_winner(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for _ in range(ROUNDS):
        run = await kit.run_one(node)
        seen = (await kit.second.open_leases())[0].renewals
        if kit.rng.random() < 0.5:
            renewed, ended = await asyncio.gather(kit.renew(node), _expire(kit, node, seen))
        else:
            ended, renewed = await asyncio.gather(_expire(kit, node, seen), kit.renew(node))
        assert (ended is not None) != renewed.is_newest
        is_ended = await kit.status(run.task) is PENDING
        assert renewed.is_newest != is_ended
        assert renewed.is_open != is_ended
        if is_ended:
            node = await kit.online(node.id)
            await kit.cancel(run.task)
        else:
            await kit.complete(run)


async def two_sessions_opened_at_once_are_two_and_the_later_one_holds(store: Store, kit: Kit) -> None:
    node = await kit.join()
    for _ in range(10):
        opened = await asyncio.gather(
            store.open_session(node, 10, ["echo"], kit.lose(), kit.now),
            kit.second.open_session(node, 10, ["echo"], kit.lose(), kit.now),
        )
        sessions = sorted(session for session, _ in opened)
        assert sessions[1] == sessions[0] + 1
        assert [lease.session for lease in await kit.second.open_leases()] == [sessions[1]]


async def a_dead_nodes_recalled_work_ends_as_its_recall_asked(store: Store, kit: Kit) -> None:
    node = await kit.node()
    cancelled, plain = await kit.run(node, 2)
    await kit.cancel(cancelled.task)
    applied = await kit.end(node)
    assert applied is not None
    assert applied.after == {cancelled.task: TaskStatus.CANCELLED, plain.task: PENDING}


async def a_lost_parent_of_waiting_children_takes_only_itself_back(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    child = await kit.submit_one(parents=[run.task])
    await kit.end(run.node)
    (again,) = await kit.assign([run.task], await kit.node())
    await kit.complete(again)
    assert await kit.status(child) is PENDING


async def losses_and_returns_never_cost_a_retry(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    for _ in range(4):
        (run,) = await kit.assign([task], await kit.node())
        await kit.end(run.node)
        (run,) = await kit.assign([task], await kit.node())
        await kit.finish(run, End.RETURNED)
    row = await kit.live(task)
    assert (row.retries, row.losses, row.deaths) == (0, 4, 0)


async def _expire(kit: Kit, node: ReadyNode, renewals: int) -> Applied | None:
    return await kit.second.end_session(
        node.id, node.session, NodeStatus.UNRESPONSIVE, kit.lose(), kit.now, renewals=renewals
    )
