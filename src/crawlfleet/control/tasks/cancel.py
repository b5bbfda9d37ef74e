"""Cancel tasks: final at once while no node has them, asked of their nodes otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.broker_hints import tell
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Applied, TaskStore
from crawlfleet.scheduling.tasks import task_state_machine

CANCELLED = "cancelled by request"


class Cancel:
    def __init__(self, *, store: TaskStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def cancel(self, tasks: Sequence[TaskId], reason: str = CANCELLED) -> Applied:
        """`after` says `cancelled` for what is final, `assigned` or `processing` for what a node was asked to stop."""
        applied = await self._store.change(tasks, task_state_machine.cancel_task(reason), self._clock.now())
        await tell(self._broker, applied)
        return applied
