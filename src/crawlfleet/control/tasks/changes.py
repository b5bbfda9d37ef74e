"""Changes of tasks that a person requests: cancel, retry, reprioritize."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Applied, TaskStore
from crawlfleet.scheduling.tasks import task_state_machine

CANCELLED = "cancelled by request"


class TaskChanges:
    def __init__(self, *, store: TaskStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def cancel_tasks(self, tasks: Sequence[TaskId], reason: str = CANCELLED) -> Applied:
        """Cancel the tasks: final at once while no node has them, a recall otherwise. `after` has `cancelled` for what
        is final, `assigned` or `processing` for what a node was ordered to stop."""
        applied = await self._store.change_tasks(tasks, task_state_machine.cancel_task(reason), self._clock.now())
        await publish_hints(self._broker, applied)
        return applied

    async def retry_tasks(self, tasks: Sequence[TaskId]) -> Applied:
        """Retry tasks by hand: the only way out of a final state. It opens the next round of the same task."""
        applied = await self._store.reopen_tasks(tasks, self._clock.now())
        await publish_hints(self._broker, applied)
        return applied

    async def reprioritize_tasks(self, tasks: Sequence[TaskId], priority: int) -> Applied:
        """Change the priority of those tasks that have not ended."""
        if not limits.PRIORITY_MIN <= priority <= limits.PRIORITY_MAX:
            bounds = f"{limits.PRIORITY_MIN} to {limits.PRIORITY_MAX}"
            raise InvalidInput(f"a priority is {bounds}", field="priority")
        live = await self._store.live_tasks(tasks)
        lanes = await self._store.load_lanes(sorted({row.lane for row in live.values()}))
        moved = {lane.id: lane.at_priority(priority) for lane in lanes}
        await self._store.ensure_lanes(list(moved.values()))
        decide = task_state_machine.change_lane({old_lane: lane.id for old_lane, lane in moved.items()})
        applied = await self._store.change_tasks(tasks, decide, self._clock.now())
        # The old window may still show them: the store refuses a task that is popped from there.
        stale = [(row.lane, row.id) for row in live.values() if moved[row.lane].id != row.lane]
        await self._broker.ready_index.discard_tasks(stale)
        await publish_hints(self._broker, applied)
        return applied
