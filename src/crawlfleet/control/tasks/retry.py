"""A person's retry: the only way out of a final state. It opens the next round of the same task."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.broker_hints import tell
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Applied, TaskStore


class Retry:
    def __init__(self, *, store: TaskStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def retry(self, tasks: Sequence[TaskId]) -> Applied:
        applied = await self._store.reopen(tasks, self._clock.now())
        await tell(self._broker, applied)
        return applied
