"""Change the priority of tasks that have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.control.support.broker_hints import tell
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import Applied, TaskStore
from crawlfleet.scheduling.tasks import task_state_machine


class _Tasks(TaskStore, ReadyTasks, Protocol):
    pass


class Reprioritize:
    def __init__(self, *, store: _Tasks, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def reprioritize(self, tasks: Sequence[TaskId], priority: int) -> Applied:
        if not limits.PRIORITY_MIN <= priority <= limits.PRIORITY_MAX:
            bounds = f"{limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}"
            raise InvalidInput(f"a priority is {bounds}", field="priority")
        live = await self._store.live(tasks)
        lanes = await self._store.lanes(sorted({row.lane for row in live.values()}))
        moved = {lane.id: lane.at_priority(priority) for lane in lanes}
        await self._store.ensure_lanes(list(moved.values()))
        decide = task_state_machine.change_lane({have: lane.id for have, lane in moved.items()})
        applied = await self._store.change(tasks, decide, self._clock.now())
        # The old window may still show them: whoever takes one from there is refused by the store.
        stale = [(row.lane, row.id) for row in live.values() if moved[row.lane].id != row.lane]
        await self._broker.ready.discard(stale)
        await tell(self._broker, applied)
        return applied
