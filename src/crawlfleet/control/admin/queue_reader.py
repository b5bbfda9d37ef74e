"""Reads queues for people: those with settings or with pending tasks."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from crawlfleet.model.queue import Queue
from crawlfleet.ports.queue_store import QueueStore, ReadyTaskStore
from crawlfleet.ports.task_store import TaskStore

DEFAULT_QUEUE = "default"


class QueueReaderStore(QueueStore, ReadyTaskStore, TaskStore, Protocol):
    """The part of the store that the reader needs."""


class QueueReport(NamedTuple):
    queue: Queue
    has_pending: bool
    """Whether tasks wait in it, ready to be placed."""


class QueueReader:
    def __init__(self, *, store: QueueReaderStore) -> None:
        self._store = store

    async def list_queues(self) -> list[QueueReport]:
        """Return the queues with pending tasks or settings, and the default one, by name."""
        stored = {queue.name: queue for queue in await self._store.list_queues()}
        configured = {name for name, queue in stored.items() if queue.is_paused or queue.is_lifo}
        lanes = await self._store.load_lanes(await self._store.ready_lanes())
        pending = {lane.queue for lane in lanes}
        names = sorted(configured | pending | {DEFAULT_QUEUE})
        return [QueueReport(stored.get(name) or Queue(name), name in pending) for name in names]
