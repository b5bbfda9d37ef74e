"""Deliberately broken installations, one per promise: they prove that each check can fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from crawlfleet.control.loops import leader, schedule_firer
from crawlfleet.model.execution import Outcome
from crawlfleet.model.ids import GroupId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.schedule import Plan, Schedule
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskTransition
from crawlfleet.ports.node_store import LeaseRow
from crawlfleet.ports.task_store import Accepted, Added, Applied, Submission, SubmissionAnswer
from crawlfleet.scheduling.schedules.ticks import plan_ticks
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.transaction import Row
from crawlfleet.store.tasks.transaction_log import TransactionLog
from testkit.simulation import variants_order as order
from testkit.simulation.run import Break
from testkit.simulation.world import World
from testkit.violations import Invariant


class Variant(NamedTuple):
    """A broken variant, and the invariant that it violates."""

    breaks: Invariant
    how: Break


@contextmanager
def answers_before_it_stores(world: World) -> Iterator[None]:
    """Some submissions are answered from memory and never written."""
    store_add, rng = world.store.add_tasks, Random(1)

    async def add(submissions: Sequence[Submission], now: Instant) -> Added:
        if rng.random() < 0.9:
            return await store_add(submissions, now)
        answers = [
            SubmissionAnswer([Accepted(item.id, TaskStatus.PENDING, now, 5) for item in submission.items])  # type: ignore[union-attr]
            for submission in submissions
        ]
        return Added(answers, {})

    with patch.object(world.store, "add_tasks", add):
        yield


@contextmanager
def stores_half_a_batch(world: World) -> Iterator[None]:
    """A batch is refused after its first half was written."""
    store_add, rng = world.store.add_tasks, Random(1)

    async def add(submissions: Sequence[Submission], now: Instant) -> Added:
        if len(submissions) > 1 or len(submissions[0].items) < 2 or rng.random() < 0.7:
            return await store_add(submissions, now)
        items = submissions[0].items
        await store_add([Submission(items[: len(items) // 2])], now)
        refusal = Refusal(Code.BATCH_REFUSED, "simulated")
        return Added([SubmissionAnswer([refusal] * len(items))], {})

    with patch.object(world.store, "add_tasks", add):
        yield


@contextmanager
def completes_without_the_fence(world: World) -> Iterator[None]:
    """Every report that a task is complete is accepted, whichever execution it belongs to."""
    store_complete = world.store.complete_executions

    async def complete(outcomes: Sequence[Outcome], now: Instant) -> Applied:
        live = await world.store.live_tasks([outcome.task for outcome in outcomes])
        for outcome in outcomes:
            row = live.get(outcome.task)
            if row is not None and row.execution != outcome.execution:
                sql = f"UPDATE live SET execution = {outcome.execution}, node = {outcome.node} WHERE id = {row.id}"
                await world.engine.write(lambda tx, sql=sql: tx.execute(sql))  # type: ignore[misc]
        return await store_complete(outcomes, now)

    with patch.object(world.store, "complete_executions", complete):
        yield


@contextmanager
def never_stops_its_own_work(world: World) -> Iterator[None]:
    """Nodes run without a lease guard."""
    with patch.object(world, "lease_margin_s", -3_600.0):
        yield


@contextmanager
def charges_for_a_lost_node(world: World) -> Iterator[None]:
    """Losing a node costs a retry."""
    lose = task_state_machine.lose_execution

    def charging(reason: str, now: Instant, rng: Random) -> DecideTransition:
        decide = lose(reason, now, rng)

        def charge(row: LiveTask, policy: RetryPolicy) -> TaskTransition | Refusal:
            step = decide(row, policy)
            if isinstance(step, Refusal) or step.after.status is not TaskStatus.PENDING:
                return step
            return step._replace(after=step.after._replace(retries=row.retries + 1))

        return charge

    with patch.object(task_state_machine, "lose_execution", charging):
        yield


@contextmanager
def leaves_work_with_the_dead(world: World) -> Iterator[None]:
    """A session that ended keeps what it held."""
    end_session, open_session = world.store.end_session, world.store.open_session

    def keep(_row: LiveTask, _policy: RetryPolicy) -> Refusal:
        return Refusal(Code.NOT_READY, "simulated")

    async def ending(node: int, session: int, status: Any, _decide: DecideTransition, now: Instant, **rest: Any) -> Any:
        return await end_session(node, session, status, keep, now, **rest)

    async def opening(
        node: int, slots: int, types: Sequence[str], _decide: DecideTransition, now: Instant, **rest: Any
    ) -> Any:
        return await open_session(node, slots, types, keep, now, **rest)

    with patch.object(world.store, "end_session", ending), patch.object(world.store, "open_session", opening):
        yield


@contextmanager
def forgets_to_count(world: World) -> Iterator[None]:
    """A counter misses some completions."""
    counted, rng = TransactionLog.count_completions, Random(1)

    def forgetful(self: TransactionLog, moved: Sequence[Row], now: Instant) -> None:
        counted(self, [row for row in moved if rng.random() < 0.95], now)

    with patch.object(TransactionLog, "count_completions", forgetful):
        yield


@contextmanager
def drops_some_deltas(world: World) -> Iterator[None]:
    """One transaction in a thousand commits without its figure delta."""
    made, rng = TransactionLog.figure_delta, world.loop.rng("deltas")

    def forgetful(self: TransactionLog, now: Instant) -> Row | None:
        return made(self, now) if rng.random() < 0.999 else None

    with patch.object(TransactionLog, "figure_delta", forgetful):
        yield


@contextmanager
def forgets_members_that_end(world: World) -> Iterator[None]:
    """A group misses some ends of its members."""
    counted, rng = TransactionLog.count_member, Random(1)

    def forgetful(
        self: TransactionLog, group: GroupId, have: TaskStatus | None, want: TaskStatus | None, count: int = 1
    ) -> None:
        if want is None or not want.is_final or rng.random() < 0.9:
            counted(self, group, have, want, count)

    with patch.object(TransactionLog, "count_member", forgetful):
        yield


@contextmanager
def judges_late(world: World) -> Iterator[None]:
    """The leader waits five leases before it declares a node lost."""
    store_leases = world.store.open_leases

    async def leases() -> list[LeaseRow]:
        return [row._replace(lease_ms=row.lease_ms * 5) for row in await store_leases()]

    with patch.object(world.store, "open_leases", leases):
        yield


@contextmanager
def elects_late(world: World) -> Iterator[None]:
    """A challenger waits half a minute for a silent leader."""
    with patch.object(leader, "SILENCE_S", 30.0):
        yield


@contextmanager
def fires_the_newest_tick_only(world: World) -> Iterator[None]:
    """Only one of several due ticks fires, though all are to be caught up."""

    def forgetful(schedule: Schedule, now: Instant) -> Plan:
        whole = plan_ticks(schedule, now)
        return whole._replace(ticks=whole.ticks[-1:])

    with patch.object(schedule_firer, "plan_ticks", forgetful):
        yield


VARIANTS: dict[str, Variant] = {
    how.__name__: Variant(breaks, how)
    for breaks, how in (
        (Invariant.NONE_LOST, answers_before_it_stores),
        (Invariant.WHOLE_OR_ABSENT, stores_half_a_batch),
        (Invariant.ONE_OUTCOME, completes_without_the_fence),
        (Invariant.ONE_OUTCOME, never_stops_its_own_work),
        (Invariant.RETRIES_BOUNDED, charges_for_a_lost_node),
        (Invariant.ALL_GIVEN_BACK, leaves_work_with_the_dead),
        (Invariant.COUNTERS_TRUE, forgets_to_count),
        (Invariant.COUNTERS_TRUE, drops_some_deltas),
        (Invariant.COUNTERS_TRUE, forgets_members_that_end),
        (Invariant.RECOVERY_BOUNDED, judges_late),
        (Invariant.RECOVERY_BOUNDED, elects_late),
        (Invariant.EACH_TICK_ONCE, fires_the_newest_tick_only),
        (Invariant.QUOTAS_KEPT, order.ignores_quotas),
        (Invariant.QUOTAS_KEPT, order.lets_everybody_in),
        (Invariant.NEVER_OVERCOMMITTED, order.promises_slots_twice),
        (Invariant.ORDER_KEPT, order.reads_stacks_as_queues),
        (Invariant.ORDER_KEPT, order.serves_the_newest_first),
        (Invariant.NONE_STARVES, order.forgets_a_project),
        (Invariant.STEPS_ONCE, order.begins_at_the_first_parent),
        (Invariant.STEPS_ONCE, order.releases_steps_again),
    )
}
