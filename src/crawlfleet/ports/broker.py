"""The broker passes hints between masters. A hint may be lost, doubled or reordered; that costs a short delay at most.

Every wait for a hint is backed by a poll of the store, at most one second apart, and the whole broker can be rebuilt
from the store. No method here raises when the broker is unavailable: the answer is then empty, and a hint is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.node import Measurement
from crawlfleet.model.queue import LaneId

LEADER = "leader"
"""Topic of the signal that there may be something to place."""
LOOK = "leader:look"
"""Topic, sent with LEADER, of the signal that queues or nodes changed: the leader reads the store before it places."""
PULLS = "leader:pulls"
"""Topic, sent with LEADER, of the signal that a node has opened a pull."""
SCHEDULES = "schedules"
"""Topic of the signal that schedules have changed, so the next tick may be another one."""
GRANTS = "leader:grants"
"""Topic of the signal that nodes or people have reported something about target hosts."""
NOTICES = "notices"
"""Topic of the signal that there are new notices to send."""
ENDS = "ends"
"""Topic of the signal that a task may have ended."""


def node_topic(node: NodeId) -> str:
    """Name the topic of the signal that the master has something for this node."""
    return f"node:{node}"


class Window(NamedTuple):
    """The known ready tasks of one lane in the ready index, in brief."""

    lane: LaneId
    head: TaskId
    """Id of the oldest task in the window, 0 for an empty window."""
    size: int
    """Number of tasks in the window."""
    is_deep: bool
    """Whether the store may have more ready tasks of the lane than the window shows."""


class ReadyIndex(Protocol):
    """Bounded windows over the lanes of ready tasks, oldest first. Masters offer tasks, the leader takes them.

    The index treats an id as a number, and the smallest is the oldest: with negated ids it is ordered newest first.
    """

    async def offer_tasks(self, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
        """Add newly ready tasks. A full window keeps its oldest tasks, drops the rest and becomes deep."""
        ...

    async def list_windows(self) -> list[Window]:
        """Return the windows that hold tasks, and those that are deep and should be refilled (head 0)."""
        ...

    async def pop_changed_windows(self) -> list[Window]:
        """Return the windows that changed since the last call; a window that is gone is empty and not deep.

        Only the leader calls this. The answer is a hint like everything here: `list_windows` shows what was missed.
        """
        ...

    async def pop_tasks(self, counts: Mapping[LaneId, int]) -> dict[LaneId, list[TaskId]]:
        """Remove the oldest tasks from their windows and return them."""
        ...

    async def refill_window(self, lane: LaneId, heads: Sequence[TaskId], is_deep: bool) -> None:
        """Replace a window by the head of its lane in the store, without the tasks that were taken meanwhile."""
        ...

    async def discard_tasks(self, tasks: Sequence[tuple[LaneId, TaskId]]) -> None:
        """Remove tasks that are no longer ready."""
        ...

    async def drop_windows(self, lanes: Sequence[LaneId]) -> None:
        """Remove the windows of these lanes."""
        ...

    async def clear(self) -> None: ...


class Signals(Protocol):
    """Wake-ups by topic. A signal that is sent while no caller waits is kept for the next wait."""

    async def send_signals(self, topics: Sequence[str]) -> None: ...

    async def wait_for_signal(self, topic: str, timeout_s: float) -> bool:
        """Wait for a signal: True when woken, False after the timeout. One signal wakes all callers that wait."""
        ...


class FreedSlotFeed(Protocol):
    """Slots freed on any master, for the leader's slot ledger. Bounded: reconciliation finds those that were lost."""

    async def post_slots(self, freed: Sequence[tuple[NodeId, ExecutionId]]) -> None: ...

    async def pop_slots(self) -> list[tuple[NodeId, ExecutionId]]: ...


class EventAnnouncements(Protocol):
    """The number of the newest event, for current listeners: they read the events themselves from the event log."""

    async def announce_event(self, number: int) -> None: ...

    async def last_announced(self) -> int: ...


class NodeMeasurements(Protocol):
    """The newest measurement of each node, for the web interface and for placement scores."""

    async def put_measurement(self, node: NodeId, measurement: Measurement) -> None: ...

    async def load_measurements(self) -> dict[NodeId, Measurement]: ...


class ExecutionProgress(Protocol):
    """The progress of running executions as their nodes last reported it, for the web interface.

    The board is bounded; entries of executions that have ended are displaced by new ones.
    """

    async def put_progress(self, figures: Mapping[ExecutionId, bytes]) -> None:
        """Store the progress figures of executions, each as JSON."""
        ...

    async def load_progress(self, executions: Sequence[ExecutionId]) -> Mapping[ExecutionId, bytes]: ...


class BrokerMemory(NamedTuple):
    """The memory of a broker that has a limit."""

    used_part: float
    """Part of the limit that is used."""
    eviction: str
    """What it does at its limit, by its own name for it."""


class Broker(Protocol):
    """All parts of the broker, as a master uses it."""

    @property
    def ready_index(self) -> ReadyIndex: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def freed_slots(self) -> FreedSlotFeed: ...

    @property
    def events(self) -> EventAnnouncements: ...

    @property
    def measurements(self) -> NodeMeasurements: ...

    @property
    def progress(self) -> ExecutionProgress: ...

    @property
    def failure_reason(self) -> str | None:
        """Describe for people what is wrong with the broker; None while it works."""
        ...

    async def load_memory(self) -> BrokerMemory | None:
        """Return how full the broker is; None where it has no limit, or does not tell."""
        ...

    async def load_generation(self) -> str:
        """Return a text that changes when the broker was emptied: the leader then rebuilds its content."""
        ...

    async def close(self) -> None: ...
