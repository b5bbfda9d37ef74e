"""The ready index in the order of each queue.

To the index the smallest id is the oldest. The lanes of a queue that is last in first out (LIFO) stand in it by negated
ids: so they come out newest first, a full window keeps the newest, and the index needs no rule for it. Outside this
module tasks always have their own ids.

A master may learn of a new order a second late, and offer an id the wrong way round meanwhile. The task then stands in
its window twice; of the two the store accepts one, and the leader begins the lane's window anew when the order changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import Unavailable
from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import Lane, LaneId, Queue
from crawlfleet.ports.broker import Broker, BrokerMemory, ReadyIndex, Window
from crawlfleet.ports.clock import Clock

MAX_AGE_S = 1.0

log = structlog.get_logger()


class _QueueStore(Protocol):
    async def list_queues(self) -> list[Queue]: ...

    async def load_lanes(self, ids: Sequence[LaneId]) -> list[Lane]: ...


class QueueOrders:
    """The queues that are last in first out, at most a second old."""

    def __init__(self, store: _QueueStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lifo: frozenset[str] = frozenset()
        self._read_at: float | None = None
        self._refresh_queues = SingleFlight(self._read_queues, "orders of queues")

    def update_queues(self, queues: Iterable[Queue]) -> frozenset[str]:
        """Update from all queues; returns the names of those that are last in first out."""
        self._lifo = frozenset(queue.name for queue in queues if queue.is_lifo)
        self._read_at = self._clock.monotonic()
        return self._lifo

    def is_lifo(self, lane: Lane) -> bool:
        return lane.queue in self._lifo

    async def lifo_lanes(self, lanes: Sequence[LaneId]) -> set[LaneId]:
        try:
            if self._read_at is None or self._clock.monotonic() - self._read_at >= MAX_AGE_S:
                await self._refresh_queues()
            if not self._lifo:
                return set()
            return {lane.id for lane in await self._store.load_lanes(lanes) if lane.queue in self._lifo}
        except Unavailable as exc:
            # The offer is a hint, after a commit that stands: it may go out in the wrong order.
            log.debug("order_unknown", error=repr(exc))
            return set()

    async def _read_queues(self) -> None:
        self.update_queues(await self._store.list_queues())


class OrderedReadyIndex:
    """A ready index that keeps the order of each queue."""

    def __init__(self, index: ReadyIndex, orders: QueueOrders) -> None:
        self._index = index
        self._orders = orders

    async def offer_tasks(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        if lifo := await self._orders.lifo_lanes(list(ready)):
            ready = {lane: _negate_ids(tasks) if lane in lifo else tasks for lane, tasks in ready.items()}
        await self._index.offer_tasks(ready)

    async def list_windows(self) -> list[Window]:
        return _with_positive_heads(await self._index.list_windows())

    async def pop_changed_windows(self) -> list[Window]:
        return _with_positive_heads(await self._index.pop_changed_windows())

    async def pop_tasks(self, counts: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        popped = await self._index.pop_tasks(counts)
        for lane, tasks in popped.items():
            # In order, so that the first is a negated one if any is; the same task may stand there both ways.
            if tasks[0] < 0:
                popped[lane] = list(dict.fromkeys(map(abs, tasks)))
        return popped

    async def refill_window(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        is_lifo = await self._orders.lifo_lanes([lane])
        await self._index.refill_window(lane, _negate_ids(heads) if is_lifo else heads, is_deep)

    async def discard_tasks(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        if lifo := await self._orders.lifo_lanes([lane for lane, _ in tasks]):
            tasks = [(lane, -task if lane in lifo else task) for lane, task in tasks]
        await self._index.discard_tasks(tasks)

    async def drop_windows(self, lanes: Sequence[LaneId]) -> None:
        await self._index.drop_windows(lanes)

    async def clear(self) -> None:
        await self._index.clear()


class OrderedBroker:
    """A broker whose ready index keeps the order of each queue; all other parts are those of the broker below."""

    def __init__(self, broker: Broker, orders: QueueOrders) -> None:
        self._broker = broker
        self.ready_index: ReadyIndex = OrderedReadyIndex(broker.ready_index, orders)
        self.signals = broker.signals
        self.freed_slots = broker.freed_slots
        self.events = broker.events
        self.measurements = broker.measurements
        self.progress = broker.progress

    @property
    def failure_reason(self) -> str | None:
        return self._broker.failure_reason

    async def load_memory(self) -> BrokerMemory | None:
        return await self._broker.load_memory()

    async def load_generation(self) -> str:
        return await self._broker.load_generation()

    async def close(self) -> None:
        await self._broker.close()


def _negate_ids(tasks: Sequence[TaskId]) -> list[TaskId]:
    return [-task for task in tasks]


def _with_positive_heads(windows: list[Window]) -> list[Window]:
    return [window._replace(head=-window.head) if window.head < 0 else window for window in windows]
