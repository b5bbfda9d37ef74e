"""Serves the pull of a simple client: a long poll for work.

    1. what the node holds and has not started is delivered, also again: an answer may have been lost
    2. with nothing to deliver, the pull is opened: it gives the node slots, which the one dispatcher fills, so that
       order, shares, quotas and filters hold for them as for all others
    3. what was assigned to the pull is delivered, and closes it. Without any it is closed when its time is over

Each execution is in one answer, however many pulls of a node there are: the store marks what an answer delivers. A new
pull of a node ends the one before, which is answered with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from crawlfleet.control.nodes.heartbeat import Heartbeat
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import ms
from crawlfleet.model.node import WAIT_S_MAX, WANT_MAX, Node, PullFilter
from crawlfleet.model.status import NodeStatus, TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.broker import LEADER, PULLS, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.pull_store import SESSION_OVER, PullRequest, PullTurn
from crawlfleet.ports.store import NodeCallStore
from crawlfleet.ports.task_store import Delivery

REDELIVERY_S = 3.0
"""Span after a delivery in which the execution is not delivered again: the client reports the start meanwhile."""
LOOK_S = 2.0
"""Longest wait for the dispatcher to look at a pull, however short a wait the client asked for."""
POLL_S = 1.0
"""Interval at which a pull looks at the store, should a hint be lost."""
PAUSE_S = 2.0
"""Pause before the next pull after one that did not wait and found nothing."""
DELIVERY_BYTES = 16 << 20
"""Limit on the task parameters in one answer; the rest follows with a later pull."""


class PulledTask(NamedTuple):
    """A task that an answer delivers."""

    row: LiveTask
    delivery: Delivery
    priority: int


class PullAnswer(NamedTuple):
    """The answer to a pull."""

    tasks: Sequence[PulledTask]
    next_s: float
    """Seconds to wait before the next pull."""


class Pull:
    def __init__(
        self, *, store: NodeCallStore, broker: Broker, clock: Clock, rng: Random, heartbeat: Heartbeat
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._heartbeat = heartbeat
        self._waiting: set[NodeId] = set()
        self._may_wait = True

    async def pull_tasks(self, node: NodeId, want: int, wanted: PullFilter, wait_s: float) -> PullAnswer:
        """Return up to `want` tasks for a node that only pulls, at once or within `wait_s`. The call shows that the
        node is alive: it opens a session, or renews the lease. Raises NotFound, and InvalidInput for a node that has an
        agent."""
        _check(want, wait_s)
        record = await self._heartbeat.ensure_session(node)
        if not record.description.is_pull_only:
            raise InvalidInput("this node has an agent, which gets its tasks by sync", field="device_id")
        # A node that drains gets what it holds, and nothing new.
        is_taking = record.status is NodeStatus.ONLINE
        request = PullRequest(node, record.session, want if is_taking else 0, ms(wait_s + LOOK_S), wanted)
        turn = await self._store.begin_pull(request, ms(REDELIVERY_S), self._clock.now())
        if turn.number == SESSION_OVER:
            return PullAnswer((), self._spread(POLL_S))
        # An older pull of the node that waits at some master is over; a signal from before says nothing of this one.
        await self._broker.signals.send_signals([node_topic(node)])
        if turn.claimed or not is_taking:
            return await self._answer(turn, self._heartbeat.interval_s(record))
        await self._broker.signals.wait_for_signal(node_topic(node), 0)
        await self._broker.signals.send_signals([PULLS, LEADER])
        turn = await self._wait_for_work(record, turn.number, want, wait_s)
        is_superseded = turn.number != SESSION_OVER and not turn.claimed and await self._is_superseded(node, turn)
        pause_s = 0.0 if wait_s >= POLL_S else PAUSE_S
        if is_superseded or not self._may_wait:
            pause_s = self._spread(POLL_S)
        return await self._answer(turn, pause_s)

    async def release_calls(self) -> None:
        """Answer every pull that waits now, and let none wait from here on: the master stops."""
        self._may_wait = False
        await self._broker.signals.send_signals([node_topic(node) for node in self._waiting])

    async def _wait_for_work(self, record: Node, number: int, want: int, wait_s: float) -> PullTurn:
        """Wait until something was assigned to the pull, or its time is over, and close it."""
        node, began = record.id, self._clock.monotonic()
        is_looked_at = False
        self._waiting.add(node)
        try:
            while self._may_wait:
                limit_s = wait_s if is_looked_at else max(wait_s, LOOK_S)
                left_s = began + limit_s - self._clock.monotonic()
                if left_s <= 0:
                    break
                if await self._broker.signals.wait_for_signal(node_topic(node), min(left_s, POLL_S)):
                    is_looked_at = True
                if await self._store.newest_pull(node) != number:
                    return PullTurn(number)
                if await self._has_unstarted(node):
                    turn = await self._claim(node, number, want, is_last=False)
                    if turn.claimed or turn.number != number:
                        return turn
        finally:
            self._waiting.discard(node)
        return await self._claim(node, number, want, is_last=True)

    async def _claim(self, node: NodeId, number: int, want: int, *, is_last: bool) -> PullTurn:
        now = self._clock.now()
        return await self._store.claim_pull(node, number, want, ms(REDELIVERY_S), now, is_last=is_last)

    async def _has_unstarted(self, node: NodeId) -> bool:
        held = (await self._store.held_tasks([node]))[node]
        return any(row.status is TaskStatus.ASSIGNED for row in held)

    async def _is_superseded(self, node: NodeId, turn: PullTurn) -> bool:
        return await self._store.newest_pull(node) != turn.number

    async def _answer(self, turn: PullTurn, pause_s: float) -> PullAnswer:
        if not turn.claimed:
            return PullAnswer((), pause_s)
        deliveries = await self._store.load_deliveries([row.id for row in turn.claimed])
        lanes = await self._store.load_lanes(sorted({row.lane for row in turn.claimed}))
        priorities = {lane.id: lane.priority for lane in lanes}
        tasks = [
            PulledTask(row, deliveries[row.id], priorities[row.lane]) for row in turn.claimed if row.id in deliveries
        ]
        tasks.sort(key=lambda task: (-task.priority, task.row.execution))
        return PullAnswer(_within_size(tasks), 0.0)

    def _spread(self, pause_s: float) -> float:
        """Return a pause of at least this length. Copies of a device that end each other's pulls part by it."""
        return pause_s * (1 + self._rng.random())


def _within_size(tasks: Sequence[PulledTask]) -> list[PulledTask]:
    chosen: list[PulledTask] = []
    size = 0
    for task in tasks:
        size += len(task.delivery.parameters)
        if chosen and size > DELIVERY_BYTES:
            break
        chosen.append(task)
    return chosen


def _check(want: int, wait_s: float) -> None:
    if not 1 <= want <= WANT_MAX:
        raise InvalidInput(f"1 to {WANT_MAX}", field="max_tasks")
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise InvalidInput(f"0 to {WAIT_S_MAX:g}", field="wait_s")
