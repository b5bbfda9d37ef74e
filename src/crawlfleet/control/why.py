"""Why a task is where it is: one sentence and its data, computed on demand from the store, by any master."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from crawlfleet.control.configure import Configure
from crawlfleet.control.node_states import node_states
from crawlfleet.errors import NotFound
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.ports.preemptions import Preemptions
from crawlfleet.ports.reads import Reads
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.scheduling import explain


class _All(TaskStore, ReadyTasks, NodeStore, Reads, Preemptions, Protocol):
    pass


class Why:
    def __init__(self, *, store: _All, clock: Clock, configure: Configure) -> None:
        self._store = store
        self._clock = clock
        self._configure = configure

    async def why(self, task: TaskId) -> explain.Why:
        record = (await self._store.tasks([task])).get(task)
        if record is None:
            raise NotFound(f"no task {task_text(task)}")
        if record.status is TaskStatus.RETRYING:
            record = replace(record, reason=await self._last_failure(task))
        (lane,) = await self._store.lanes([record.lane])
        is_pending = record.status is TaskStatus.PENDING
        preempted = (await self._store.preempted([task])).get(task) if lane.requirement.preemptible else None
        return explain.why(
            record,
            lane,
            is_queue_paused=lane.queue in await self._store.paused_queues(),
            parents=await self._store.parents(task),
            nodes=await node_states(self._store, self._configure),
            now=self._clock.now(),
            stopping=[one.node for one in await self._store.stopping(task)] if is_pending else (),
            preempted=None if preempted is None else explain.Preempted(preempted.times, preempted.waiter),
        )

    async def _last_failure(self, task: TaskId) -> str | None:
        failures = [one.failure.message for one in await self._store.executions(task) if one.failure is not None]
        return failures[-1] if failures else None
