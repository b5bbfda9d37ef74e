"""Dead letters: tasks out of retries, kept with their history until a person replays or drops them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model.ids import TaskId
from crawlfleet.model.task import DeadLetter, DeadLetterGroup
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.task_store import Applied, TaskReadStore, TaskStore

_PAGE = 1_000


class _Letters(TaskStore, TaskReadStore, Protocol):
    pass


class DeadLetters:
    def __init__(self, *, store: _Letters, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def list_letters(
        self, limit: int = 100, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]:
        return await self._store.dead_letters(min(limit, _PAGE), before, cause, project)

    async def list_causes(self, project: str | None = None) -> list[DeadLetterGroup]:
        return await self._store.dead_letter_groups(project)

    async def replay_letters(self, tasks: Sequence[TaskId]) -> Applied:
        applied = await self._store.reopen_tasks(tasks, self._clock.now())
        await publish_hints(self._broker, applied)
        return applied

    async def replay_cause(self, cause: str) -> int:
        """Replay every dead letter of a cause, page by page, and return how many tasks were opened again."""
        replayed, before = 0, None
        while letters := await self._store.dead_letters(_PAGE, before, cause):
            replayed += len((await self.replay_letters([letter.task for letter in letters])).after)
            before = letters[-1].task
        return replayed

    async def has_cause(self, cause: str) -> bool:
        return bool(await self._store.dead_letters(1, None, cause))

    async def drop_letters(self, tasks: Sequence[TaskId]) -> Applied:
        return await self._store.drop_tasks(tasks, self._clock.now())
