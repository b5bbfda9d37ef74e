"""Clocks that are wrong: a master's wall clock that jumps, and a node that counts nonsense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawlfleet.control.loops.id_slot_keeper import IdSlotKeeper
from crawlfleet.control.loops.reaper import OVERDUE_BATCH
from crawlfleet.model.execution import End
from crawlfleet.model.ids import IdFactory, TaskId
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import NodeStatus, Recall, TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.wire.sync import OutcomeBody, StartBody, SyncVerdict
from tests.integration.faults.faults_kit import Fleet, PlayedNode, accepted_ids, echo, refusals

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
JUMPS = pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS], ids=["forward", "back"])
NONSENSE = pytest.mark.parametrize("ms_ago", [-1, 400 * 86_400_000, 2**62, 2**63, 2**70, -(2**70)])


async def one_second(fleet: Fleet, *syncing: PlayedNode) -> int:
    """The leader looks once, nodes sync once; how many sessions it ended."""
    fleet.clock.advance(1.0)
    for node in syncing:
        await node.sync()
    report = await fleet.master.reaper.run_term(await fleet.lead(), fleet.clock.now())
    return report.sessions


async def running_task(fleet: Fleet, node: PlayedNode, **fields: Any) -> tuple[TaskId, int]:
    (task,) = await fleet.tasks(**fields)
    await fleet.dispatch()
    await node.sync()
    (execution,) = [execution for execution, one in node.held.items() if one.task == task]
    node.start(execution)
    await node.sync()
    return task, execution


async def live(fleet: Fleet, task: TaskId) -> LiveTask:
    return (await fleet.store.live_tasks([task]))[task]


@JUMPS
async def test_a_jump_of_the_wall_clock_ends_no_lease(fleet: Fleet, jump_ms: int) -> None:
    node = await fleet.node()
    await running_task(fleet, node)
    for second in range(24):
        if second % 8 == 3:
            fleet.clock.jump(jump_ms)
        assert await one_second(fleet, *[node] * (second % 3 == 0)) == 0
    assert (await node.sync()).verdict is SyncVerdict.OK
    assert len(await fleet.held_by(node)) == 1


@JUMPS
async def test_a_silent_node_is_ended_after_its_lease_whatever_the_wall_clock_says(fleet: Fleet, jump_ms: int) -> None:
    node = await fleet.node()
    task, _ = await running_task(fleet, node)
    ended = []
    for second in range(12):
        if second == 2:
            fleet.clock.jump(jump_ms)
        ended.append(await one_second(fleet))
    assert sum(ended[:9]) == 0
    assert sum(ended) == 1
    assert (await fleet.store.load_nodes([node.id]))[0].status is NodeStatus.UNRESPONSIVE
    assert await fleet.status(task) is TaskStatus.PENDING


async def test_no_deadline_is_recalled_early_when_the_wall_clock_jumps_forward(fleet: Fleet) -> None:
    node = await fleet.node()
    task, _ = await running_task(fleet, node, timeout_s=5)
    fleet.clock.jump(HOUR_MS)
    for _ in range(12):
        await one_second(fleet, node)
        assert (await live(fleet, task)).recall is Recall.NONE
    for _ in range(6):
        await one_second(fleet, node)
    assert await fleet.status(task) is not TaskStatus.PROCESSING, "a deadline that passed by every clock was not kept"


async def test_a_deadline_is_kept_again_when_a_wall_clock_that_was_set_back_is_right_again(fleet: Fleet) -> None:
    node = await fleet.node()
    task, _ = await running_task(fleet, node, timeout_s=5)
    fleet.clock.jump(-HOUR_MS)
    for _ in range(20):
        await one_second(fleet, node)
        assert (await live(fleet, task)).recall is Recall.NONE
    fleet.clock.jump(HOUR_MS)
    await one_second(fleet, node)
    assert (await live(fleet, task)).recall is Recall.DEADLINE


async def test_ids_stay_unique_and_ascending_over_jumps_and_restarts(fleet: Fleet) -> None:
    node = await fleet.node(slots=1_000)
    made: list[TaskId] = []
    for jump_ms in (0, HOUR_MS, -HOUR_MS, -HOUR_MS, 2 * HOUR_MS, -1):
        fleet.clock.jump(jump_ms)
        here = await fleet.tasks(5_000)
        assert here == sorted(here)
        assert not made or here[0] > made[-1]
        made += here
    fleet.clock.jump(-2 * HOUR_MS)
    await fleet.start()
    made += await fleet.tasks(5_000)
    await fleet.dispatch()
    executions = [row.execution for row in await fleet.held_by(node)]
    assert len(executions) == 1_000
    assert len({*made, *executions}) == len(made) + len(executions)


async def test_a_key_is_honoured_when_the_wall_clock_jumps(fleet: Fleet) -> None:
    await fleet.node()
    first = await fleet.submit(echo(), batch="b", key="k")
    for jump_ms in (HOUR_MS, -2 * HOUR_MS, HOUR_MS):
        fleet.clock.jump(jump_ms)
        again = await fleet.submit(echo(), batch="b", key="k")
        assert (accepted_ids(again), again.is_replay) == (accepted_ids(first), True)
    other = await fleet.submit(echo(priority=9), batch="other", key="k")
    assert [refusal.code for refusal in refusals(other)] == [Code.IDEMPOTENCY_MISMATCH]
    await fleet.settle()
    await fleet.judge()


@JUMPS
async def test_work_goes_on_to_its_end_under_a_jumping_wall_clock(fleet: Fleet, jump_ms: int) -> None:
    await fleet.node()
    await fleet.tasks(10)
    fleet.clock.jump(jump_ms)
    await fleet.tasks(10)
    await fleet.dispatch()
    fleet.clock.jump(-jump_ms)
    await fleet.settle()
    await fleet.judge()


@NONSENSE
async def test_a_start_at_a_nonsense_time_counts_and_harms_nobody(fleet: Fleet, ms_ago: int) -> None:
    confused, sane = await fleet.node(slots=1), await fleet.node(slots=1)
    await fleet.tasks(2, timeout_s=60)
    await fleet.dispatch()
    await confused.sync()
    await sane.sync()
    for node, said in ((confused, ms_ago), (sane, 1_000)):
        ((execution, one),) = node.held.items()
        node.starts.append(StartBody(one.task, execution, said))
    # Together, so that they are gathered into one batch.
    await asyncio.gather(confused.sync(), sane.sync())
    for node in (confused, sane):
        (row,) = await fleet.held_by(node)
        assert row.status is TaskStatus.PROCESSING
        assert row.started_at is not None
        assert 0 <= fleet.clock.now() - row.started_at <= 30 * 86_400_000
        assert "runs on node" in (await fleet.master.why.explain_task(row.id)).sentence
    for _ in range(3):
        await one_second(fleet, confused, sane)
        assert [row.recall for node in fleet.nodes for row in await fleet.held_by(node)] == [Recall.NONE] * 2
    await fleet.settle()
    await fleet.judge()


@NONSENSE
@pytest.mark.parametrize("end", [End.COMPLETED, End.FAILED])
async def test_an_outcome_with_a_nonsense_span_is_taken_without_it(fleet: Fleet, ms_ago: int, end: End) -> None:
    confused, sane = await fleet.node(slots=1), await fleet.node(slots=1)
    await fleet.tasks(2)
    await fleet.dispatch()
    for node, said in ((confused, ms_ago), (sane, 1_000)):
        await node.sync()
        ((execution, one),) = node.held.items()
        node.end(execution)
        node.outcomes[execution] = OutcomeBody(one.task, execution, int(end), 5, "said so", started_ms_ago=said)
    await asyncio.gather(confused.sync(), sane.sync())
    assert not confused.outcomes
    assert not sane.outcomes
    for record in await fleet.executions():
        is_sane = record.node == sane.id
        assert (record.started_at is not None) == is_sane
        assert (await fleet.master.why.explain_task(record.task)).sentence
    await fleet.settle()
    await fleet.judge()


async def test_an_overdue_task_is_recalled_behind_many_that_only_a_jump_makes_look_overdue(fleet: Fleet) -> None:
    node = await fleet.node(slots=OVERDUE_BATCH + 2, lease_ms=HOUR_MS)
    await fleet.tasks(OVERDUE_BATCH + 1, timeout_s=300)
    await fleet.dispatch()
    await node.sync()
    overdue, execution = await running_task(fleet, node, timeout_s=1)
    others = [each for each in node.held if each != execution]
    fleet.clock.jump(HOUR_MS)
    for _ in range(4):
        fleet.clock.advance(5.0)
        await node.sync()
        await fleet.master.reaper.run_term(await fleet.lead(), fleet.clock.now())
    # Stopped by the node, as a recall asks for, and nothing else with it.
    await node.sync()
    assert execution not in node.held
    assert set(others) <= set(node.held)
    assert overdue not in {row.id for row in (await fleet.store.live_tasks([overdue])).values() if row.node == node.id}


async def test_a_master_whose_slot_of_ids_was_given_away_takes_another(fleet: Fleet) -> None:
    ids = IdFactory(await fleet.store.take_id_slot(1_001, fleet.clock.now()), fleet.clock.now)
    keeper = IdSlotKeeper(store=fleet.store, clock=fleet.clock, ids=ids, boot=1_001)
    await keeper.run_once(fleet.clock.now())
    assert ids.slot == 1_001
    sql = "UPDATE id_slot SET boot = 2025 WHERE slot = 1001"
    await fleet.store.engine.write(lambda tx: tx.execute(sql))
    await keeper.run_once(fleet.clock.now())
    assert ids.slot == 1_002
    await keeper.run_once(fleet.clock.now())
    assert ids.slot == 1_002
