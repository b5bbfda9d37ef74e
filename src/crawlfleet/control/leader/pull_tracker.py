"""Tracks the open pulls of nodes, for the leader.

A pull is open for a span that the leader measures from when it sees the pull first, by its own monotonic clock. So a
pull whose master died ends too, and clocks that differ between masters do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import ANY_TASK, Node, OpenPull, PullFilter


class _TrackedPull(NamedTuple):
    pull: OpenPull
    seen_at: float
    """When the leader saw it first, in monotonic seconds."""


class PullTracker:
    def __init__(self) -> None:
        self._tracked: dict[NodeId, _TrackedPull] = {}
        self._filters: dict[NodeId, PullFilter] = {}
        self.new_nodes: set[NodeId] = set()
        """Nodes whose pull was seen for the first time since `pop_new`."""

    def clear(self) -> None:
        """Forget everything: another term begins."""
        self._tracked.clear()
        self._filters.clear()
        self.new_nodes.clear()

    def update_pulls(self, pulls: Sequence[OpenPull], now_mono: float) -> set[NodeId]:
        """Set the pulls that are open by the store; those that are not among them are closed. Returns the nodes whose
        pull was opened or closed."""
        before, self._tracked = self._tracked, {}
        changed = set(before)
        for pull in pulls:
            seen = before.get(pull.node)
            if seen is None or seen.pull.number != pull.number:
                seen = _TrackedPull(pull, now_mono)
                self.new_nodes.add(pull.node)
                changed.add(pull.node)
            else:
                changed.discard(pull.node)
            self._tracked[pull.node] = seen
            if pull.filter == ANY_TASK:
                self._filters.pop(pull.node, None)
            else:
                self._filters[pull.node] = pull.filter
        return changed

    def find_open(self, node: Node, now_mono: float) -> OpenPull | None:
        """Return the open pull of the node's session; None without one, and when its span is over."""
        tracked = self._tracked.get(node.id)
        if tracked is None or not node.is_session_open or tracked.pull.session != node.session:
            return None
        return tracked.pull if now_mono - tracked.seen_at < tracked.pull.span_ms / 1000 else None

    def has_pulls(self) -> bool:
        return bool(self._tracked)

    def open_numbers(self, nodes: Iterable[NodeId]) -> dict[NodeId, int]:
        """Return the numbers of the pulls of those nodes that have one."""
        return {node: self._tracked[node].pull.number for node in nodes if node in self._tracked}

    def last_filter(self, node: NodeId) -> PullFilter:
        """Return the conditions of the node's newest pull. They stay when the pull is over, so that the next one, which
        is usually the same, changes nothing but slots."""
        return self._filters.get(node, ANY_TASK)

    def pop_new(self) -> set[NodeId]:
        """Return and clear the nodes with a new pull."""
        nodes, self.new_nodes = self.new_nodes, set()
        return nodes
