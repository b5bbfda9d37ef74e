"""Lease expiry, judged by monotonic clocks only.

The leader's side: a renewal is a counter that rises. A lease is over when the leader has seen the same counter for the
whole lease by its own clock. It starts to count when it first sees a counter, which is after the renewal: so it never
judges too early. A leader that slept has not watched, and does not judge: every node gets a fresh lease.

The node's side: it counts from the moment it *sent* the last sync that was answered, which is before the renewal, and
stops its own work a margin before the end (`execution.agent.work.lease_guard`). So its work has stopped when the
leader gives it to another node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from crawlfleet.model.ids import NodeId


class SessionLease(Protocol):
    """The lease of an open session as the store has it."""

    @property
    def node(self) -> NodeId: ...

    @property
    def session(self) -> int: ...

    @property
    def renewals(self) -> int: ...

    @property
    def lease_ms(self) -> int: ...


LeaseT = TypeVar("LeaseT", bound=SessionLease)


@dataclass(slots=True)
class _WatchedLease(Generic[LeaseT]):
    lease: LeaseT
    since: float


class LeaseTracker(Generic[LeaseT]):
    """The leases as the leader has observed them. Times are its monotonic seconds, read after the rows were."""

    def __init__(self, *, max_gap_s: float = 5.0) -> None:
        self._max_gap_s = max_gap_s
        self._watched: dict[NodeId, _WatchedLease[LeaseT]] = {}
        self._observed_at: float | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def observe_leases(self, leases: Iterable[LeaseT], now_mono: float) -> None:
        """Observe all open sessions as of now; one that is missing is over and dropped."""
        if self._has_slept(now_mono):
            self.restart_leases(now_mono)
        self._observed_at = now_mono
        before, self._watched = self._watched, {}
        for lease in leases:
            watched = before.get(lease.node)
            if watched is not None and (watched.lease.session, watched.lease.renewals) == (
                lease.session,
                lease.renewals,
            ):
                since = watched.since
            else:
                since = now_mono
            self._watched[lease.node] = _WatchedLease(lease, since)

    def expired_leases(self, now_mono: float) -> list[LeaseT]:
        """Leases unchanged for their whole length, oldest first. None from a leader that slept since it observed."""
        if self._has_slept(now_mono):
            return []
        expired = [watch for watch in self._watched.values() if now_mono - watch.since >= watch.lease.lease_ms / 1000]
        expired.sort(key=lambda watch: watch.since)
        return [watch.lease for watch in expired]

    def forget_node(self, node: NodeId) -> None:
        """Drop the lease of a node whose session was ended."""
        self._watched.pop(node, None)

    def restart_leases(self, now_mono: float) -> None:
        """Let every lease begin now: for a new leader, or one that did not watch."""
        self._observed_at = now_mono
        for watch in self._watched.values():
            watch.since = now_mono

    def _has_slept(self, now_mono: float) -> bool:
        return self._observed_at is not None and now_mono - self._observed_at > self._max_gap_s
