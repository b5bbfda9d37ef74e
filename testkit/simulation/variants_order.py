"""Deliberately broken scheduling, one variant per promise that is checked at every commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from unittest.mock import PropertyMock, patch

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.queue_ordering import QueueOrders
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import Outcome
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Recall, TaskStatus
from crawlfleet.ports.task_store import Applied
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, _ProjectTurns
from crawlfleet.scheduling.quotas.project_quota import UNLIMITED, Allowance, SubmitQuota
from crawlfleet.store.composites.flow_release import StepRelease
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.tasks.transaction_log import write_events
from testkit.simulation.world import World

_HELD_STEPS = (
    "SELECT l.id FROM live l JOIN flow_step f ON f.task = l.id WHERE f.item IS NULL AND f.items IS NULL "
    f"AND l.status = {TaskStatus.PROCESSING:d} AND l.recall = {Recall.NONE:d}"
)
_AGAIN = (
    f"UPDATE live SET status = {TaskStatus.PENDING:d}, node = 0, session = 0, execution = 0, assigned_at = NULL, "
    "started_at = NULL, deadline_at = NULL WHERE id = $1"
)


@contextmanager
def ignores_quotas(world: World) -> Iterator[None]:
    """The leader places as if no project had a limit."""
    with (
        patch.object(Allowance, "count_allowed", lambda *_: UNLIMITED),
        patch.object(Allowance, "is_exhausted", PropertyMock(return_value=False)),
    ):
        yield


@contextmanager
def lets_everybody_in(world: World) -> Iterator[None]:
    """Submissions are accepted whatever waits already."""
    with patch.object(SubmitQuota, "violation", lambda *_: None):
        yield


@contextmanager
def promises_slots_twice(world: World) -> Iterator[None]:
    """The leader assumes nine slots on a node that has fewer."""
    slots = Configure.effective_slots

    def nine(self: Configure, cluster: str, wanted: int | None, measured: int | None, follows_load: bool) -> int | None:
        return slots(self, cluster, wanted, measured, follows_load) or 9

    with patch.object(Configure, "effective_slots", nine):
        yield


@contextmanager
def reads_stacks_as_queues(world: World) -> Iterator[None]:
    """The lanes of a queue that is last in first out are read from their other end."""
    learn = QueueOrders.update_queues

    def deaf(self: QueueOrders, queues: object) -> frozenset[str]:
        return learn(self, ())

    with patch.object(QueueOrders, "update_queues", deaf):
        yield


@contextmanager
def serves_the_newest_first(world: World) -> Iterator[None]:
    """Every queue is read as if it were last in first out."""
    with patch.object(QueueOrders, "is_lifo", lambda *_: True), patch.object(QueueOrders, "lifo_lanes", _all):
        yield


async def _all(_self: QueueOrders, lanes: Sequence[int]) -> set[int]:
    return set(lanes)


@contextmanager
def forgets_a_project(world: World) -> Iterator[None]:
    """One project is never served."""
    turn = DispatchRound._take_turn

    def forgetful(self: DispatchRound, turns: _ProjectTurns) -> int | None:
        return None if turns.project == "a" else turn(self, turns)

    with patch.object(DispatchRound, "_take_turn", forgetful):
        yield


@contextmanager
def begins_at_the_first_parent(world: World) -> Iterator[None]:
    """A step is decided upon as soon as one of its parents has ended."""
    parents_ended = StepRelease.parents_ended

    async def hasty(self: StepRelease, parents: Mapping[TaskId, int]) -> dict[TaskId, TaskStatus]:
        return await parents_ended(self, dict.fromkeys(parents, 99))

    with patch.object(StepRelease, "parents_ended", hasty):
        yield


@contextmanager
def releases_steps_again(world: World) -> Iterator[None]:
    """When something completes, a step that runs may be made ready once more."""
    store_complete, rng = world.store.complete_executions, Random(1)

    async def release(tx: Tx, now: Instant) -> None:
        for (step,) in await tx.fetch(_HELD_STEPS):
            if rng.random() < 0.3:
                await tx.execute(_AGAIN, step)
                await write_events(tx, [EventBatch(Kind.TASK_READY, {"task": [step]})], now)

    async def complete(outcomes: Sequence[Outcome], now: Instant) -> Applied:
        applied = await store_complete(outcomes, now)
        await world.engine.write(lambda tx: release(tx, now))
        return applied

    with patch.object(world.store, "complete_executions", complete):
        yield
