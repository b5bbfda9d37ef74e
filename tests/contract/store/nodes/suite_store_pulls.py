"""Pulls: a claim delivers each execution in one answer, and nothing is assigned to a pull that is over."""

import asyncio

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import ANY_TASK, OpenPull, PullFilter
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.pull_store import SESSION_OVER, PullRequest, PullTurn
from crawlfleet.ports.store import Store
from testkit.factories import Kit, ReadyNode, Run

GRACE_MS = 3_000


async def _device(kit: Kit) -> ReadyNode:
    return await kit.node(is_pull_only=True)


def _request(node: ReadyNode, want: int = 1, wanted: PullFilter = ANY_TASK) -> PullRequest:
    return PullRequest(node.id, node.session, want, 22_000, wanted)


async def _begin(store: Store, kit: Kit, node: ReadyNode, want: int = 1) -> PullTurn:
    return await store.begin_pull(_request(node, want), GRACE_MS, kit.now)


async def _claim(store: Store, kit: Kit, node: ReadyNode, number: int, *, is_last: bool = False) -> PullTurn:
    return await store.claim_pull(node.id, number, 10, GRACE_MS, kit.now, is_last=is_last)


async def _assign(store: Store, kit: Kit, node: ReadyNode, pulls: dict[NodeId, int]) -> Code | Run:
    (task,) = await kit.submit()
    item = await kit.assignment(task, node)
    applied = await store.assign_tasks([item], None, kit.now, None, pulls)
    return applied.refused[task].code if applied.refused else Run(task, item.execution, node)


async def a_pull_without_work_is_open_for_the_leader(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    (run,) = await kit.run(node)
    await kit.start(run)
    wanted = PullFilter(7, ("echo",), ("shoes", "toys"))
    assert await store.begin_pull(_request(node, 5, wanted), GRACE_MS, kit.now) == PullTurn(1, [])
    pull = OpenPull(node.id, node.session, 1, 5, 22_000, wanted, frozenset({run.execution}))
    assert await kit.second.open_pulls() == [pull]
    assert (await kit.second.placement_view()).pulls == [pull]
    assert await kit.second.newest_pull(node.id) == 1


async def what_is_assigned_to_a_pull_is_claimed_once_and_closes_it(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    number = (await _begin(store, kit, node)).number
    run = await _assign(store, kit, node, {node.id: number})
    assert isinstance(run, Run)
    turn = await _claim(store, kit, node, number)
    assert [row.execution for row in turn.claimed] == [run.execution]
    assert await store.open_pulls() == []
    assert await _assign(store, kit, node, {node.id: number}) is Code.NODE_NOT_READY
    assert await _claim(kit.second, kit, node, number) == PullTurn(number, [])


async def nothing_is_assigned_to_a_pull_that_is_over(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    number = (await _begin(store, kit, node)).number
    assert await _claim(store, kit, node, number, is_last=True) == PullTurn(number, [])
    assert await _assign(store, kit, node, {node.id: number}) is Code.NODE_NOT_READY
    newer = (await _begin(store, kit, node)).number
    assert newer == number + 1
    assert await _assign(store, kit, node, {node.id: number}) is Code.NODE_NOT_READY
    assert isinstance(await _assign(store, kit, node, {node.id: newer}), Run)


async def a_newer_pull_ends_the_one_before(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    first, second = (await _begin(store, kit, node)).number, (await _begin(store, kit, node)).number
    assert await _assign(store, kit, node, {node.id: second})
    assert await _claim(store, kit, node, first, is_last=True) == PullTurn(second)
    assert len((await _claim(store, kit, node, second)).claimed) == 1


async def what_has_not_started_is_delivered_again_after_the_grace(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    runs = await kit.run(node, 3)
    first = await _begin(store, kit, node, 10)
    assert {row.execution for row in first.claimed} == {run.execution for run in runs}
    assert (await _begin(kit.second, kit, node, 10)).claimed == []
    await kit.start(runs[0])
    assert await store.delivered_executions(node.id) == {run.execution for run in runs}
    kit.later(GRACE_MS)
    again = await _begin(store, kit, node, 10)
    assert {row.execution for row in again.claimed} == {run.execution for run in runs[1:]}
    assert await store.delivered_executions(node.id) == {run.execution for run in runs[1:]}


async def a_clock_that_was_set_back_delivers_again(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    (run,) = await kit.run(node)
    await _begin(store, kit, node)
    turn = await store.begin_pull(_request(node), GRACE_MS, kit.now - 60_000)
    assert [row.execution for row in turn.claimed] == [run.execution]


async def no_more_is_claimed_than_wanted(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    runs = await kit.run(node, 3)
    claimed = [row for _ in range(3) for row in (await _begin(store, kit, node, 1)).claimed]
    assert [row.execution for row in claimed] == sorted(run.execution for run in runs)


async def what_is_recalled_is_not_delivered(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    (run,) = await kit.run(node)
    await kit.cancel(run.task)
    assert (await _begin(store, kit, node)).claimed == []


async def a_pull_of_a_session_that_is_over_opens_nothing(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    await kit.end(node)
    assert await _begin(store, kit, node) == PullTurn(SESSION_OVER)
    other = await store.begin_pull(PullRequest(12_345, 1, 1, 1, ANY_TASK), GRACE_MS, kit.now)
    assert other == PullTurn(SESSION_OVER)
    assert await store.open_pulls() == []
    assert await store.newest_pull(node.id) == 0


async def the_pull_of_a_removed_node_is_gone(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    await _begin(store, kit, node)
    await store.unregister_node(node.id, kit.now)
    assert await store.open_pulls() == []


async def two_pulls_at_the_same_time_deliver_each_execution_once(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    for _ in range(5):
        runs = await kit.run(node, 4)
        turns = await asyncio.gather(*(_begin(one, kit, node, 3) for one in (store, kit.second, store, kit.second)))
        delivered = [row.execution for turn in turns for row in turn.claimed]
        assert sorted(delivered) == sorted(run.execution for run in runs)
        for run in runs:
            await kit.complete(run)


async def an_assignment_that_meets_the_end_of_a_pull_is_claimed_or_refused(store: Store, kit: Kit) -> None:
    node = await _device(kit)
    for _ in range(10):
        number = (await _begin(store, kit, node)).number
        assigned, turn = await asyncio.gather(
            _assign(store, kit, node, {node.id: number}), _claim(kit.second, kit, node, number, is_last=True)
        )
        if isinstance(assigned, Run):
            assert [row.execution for row in turn.claimed] == [assigned.execution]
            assert await kit.status(assigned.task) is TaskStatus.ASSIGNED
            await kit.complete(assigned)
        else:
            assert (assigned, list(turn.claimed)) == (Code.NODE_NOT_READY, [])
