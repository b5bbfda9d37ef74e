"""Counts the sessions that nodes opened at this master in the last hour: a node that opens many is in trouble."""

from __future__ import annotations

from collections import Counter, deque

from crawlfleet.model.ids import NodeId
from crawlfleet.ports.clock import Clock

WINDOW_S = 3_600.0
MAX_SESSIONS = 20_000
MAX_NODES = 50


class SessionCounter:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opened: deque[tuple[float, NodeId]] = deque(maxlen=MAX_SESSIONS)

    def note_session(self, node: NodeId) -> None:
        self._opened.append((self._clock.monotonic(), node))

    def repeated_sessions(self) -> dict[NodeId, int]:
        """Return the nodes with the most sessions in the last hour, those with one left out."""
        since = self._clock.monotonic() - WINDOW_S
        while self._opened and self._opened[0][0] < since:
            self._opened.popleft()
        counts = Counter(node for _, node in self._opened)
        return {node: count for node, count in counts.most_common(MAX_NODES) if count > 1}
