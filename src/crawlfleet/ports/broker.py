"""The broker: hints. Anything in it may be lost, doubled or reordered; the worst that follows is a short delay.

Behind every wait for a hint stands a poll of the store of at most a second, and all of it can be rebuilt from there.
Nothing here raises for a broker that is away: an answer is then empty, a hint is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.node import Measurement
from crawlfleet.model.requirement import LaneId

LEADER = "leader"
"""Signal: there may be something to place."""
LOOK = "leader:look"
"""Signal, sent with LEADER: queues or nodes have changed, so look at the store before placing anything more."""
SCHEDULES = "schedules"
"""Signal: schedules have changed, so the next tick may be another one."""
GRANTS = "leader:grants"
"""Signal: nodes or people have said something of target hosts."""
ENDS = "ends"
"""Signal: a task may have ended."""


def node_topic(node: NodeId) -> str:
    """Signal: a node has something to hear."""
    return f"node:{node}"


class Window(NamedTuple):
    lane: LaneId
    head: TaskId
    size: int
    is_deep: bool
    """The store may have more than the window shows."""


class ReadyIndex(Protocol):
    """Bounded windows over the lanes of ready tasks, oldest first. Masters offer, the leader takes.

    To the index an id is a number, and the smallest is the oldest: negated ids stand in it newest first.
    """

    async def offer(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        """Newly ready tasks. A full window keeps its oldest, drops the rest and becomes deep."""
        ...

    async def windows(self) -> list[Window]:
        """Windows that hold something, or that are deep and should be refilled (head 0)."""
        ...

    async def changed(self) -> list[Window]:
        """Those that are not as they were when this was asked last; one that is gone is empty and not deep. For the
        leader alone. A hint like everything here: what was missed, `windows` shows."""
        ...

    async def take(self, wants: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        """Take the oldest out of their windows."""
        ...

    async def refill(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        """What the store has at the head of the lane, without what was taken meanwhile."""
        ...

    async def discard(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        """No longer ready."""
        ...

    async def drop(self, lanes: Sequence[LaneId]) -> None:
        """Forget their windows."""
        ...

    async def clear(self) -> None: ...


class Signals(Protocol):
    """Wake-ups by topic. A signal sent while nobody waits is kept for the next wait."""

    async def wake(self, topics: Sequence[str]) -> None: ...

    async def wait(self, topic: str, timeout_s: float) -> bool:
        """True when woken, False after the timeout. One signal wakes everybody who waits."""
        ...


class FreedFeed(Protocol):
    """Slots that became free on any master, for the leader's ledger. Bounded; losing some is found by reconciling."""

    async def post(self, freed: Sequence[tuple[NodeId, ExecutionId]]) -> None: ...

    async def take_all(self) -> list[tuple[NodeId, ExecutionId]]: ...


class EventFan(Protocol):
    """How far the event log goes, for whoever listens now: the events themselves are read from it."""

    async def announce(self, number: int) -> None: ...

    async def last_announced(self) -> int: ...


class LiveBoard(Protocol):
    """The newest measurement of each node, for screens and scores."""

    async def put(self, node: NodeId, measurement: Measurement) -> None: ...

    async def all(self) -> dict[NodeId, Measurement]: ...


class ProgressBoard(Protocol):
    """How far running executions are, as their nodes told it last: for screens. Bounded; those of executions that have
    ended are pushed out by others."""

    async def put(self, told: Mapping[ExecutionId, bytes]) -> None:
        """Figures in JSON."""
        ...

    async def of(self, executions: Sequence[ExecutionId]) -> Mapping[ExecutionId, bytes]: ...


class Broker(Protocol):
    @property
    def ready(self) -> ReadyIndex: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def freed(self) -> FreedFeed: ...

    @property
    def events(self) -> EventFan: ...

    @property
    def board(self) -> LiveBoard: ...

    @property
    def progress(self) -> ProgressBoard: ...

    @property
    def trouble(self) -> str | None:
        """For people: what is wrong with it; None while it does its work."""
        ...

    async def generation(self) -> str:
        """Changes when the broker was emptied: the leader then rebuilds."""
        ...

    async def close(self) -> None: ...
