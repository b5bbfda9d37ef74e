"""The node's side of its lease, and the guard that stops the work before the lease ends.

A lease is counted from the moment the last answered sync was sent: the master cannot have counted from an earlier one.
Before it ends the node stops its own work, since from then on a master may give that work to another node.

The guard has a task of its own, so that it stops the work also while a call to a master hangs. A process that was
stopped for long (SIGSTOP, a suspended machine) wakes up with everything due at once, in any order: therefore code
that starts an execution or accepts its result checks the lease first and does not rely on the guard. The clock counts
the machine's sleep, and the guard checks it every second, as timers do not.
"""

from __future__ import annotations

from collections.abc import Callable

from crawlfleet.execution.agent.work.deadline_timer import DeadlineTimer
from crawlfleet.ports.clock import Clock

MARGIN_S = 2.0


class NodeLease:
    """The lease of the node's session, counted from the last answered sync."""

    def __init__(self, clock: Clock, margin_s: float = MARGIN_S) -> None:
        self._clock = clock
        self._margin_s = margin_s
        self._span_s = 0.0
        self.stop_at: float | None = None
        """Monotonic time at which work has to stop; None while there is no session."""

    @property
    def left_s(self) -> float:
        return 0.0 if self.stop_at is None else self.stop_at - self._clock.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    def start(self, lease_s: float, sent_at: float) -> None:
        self._span_s = lease_s - min(self._margin_s, lease_s / 3)
        self.stop_at = sent_at + self._span_s

    def renew(self, sent_at: float) -> None:
        if self.stop_at is not None:
            self.stop_at = max(self.stop_at, sent_at + self._span_s)

    def clear(self) -> None:
        self.stop_at = None


class LeaseGuard:
    """Stops the work of the node before its lease ends."""

    def __init__(self, lease: NodeLease, clock: Clock, stop_work: Callable[[], None]) -> None:
        self._lease = lease
        self._stop_work = stop_work
        self.timer = DeadlineTimer(clock, self._stop_if_lapsed)

    def start_lease(self, lease_s: float, sent_at: float) -> None:
        self._lease.start(lease_s, sent_at)
        self.timer.set_deadline(self._lease.stop_at)

    def renew_lease(self, sent_at: float) -> None:
        """Renew the lease after the sync sent at `sent_at` was answered."""
        self._lease.renew(sent_at)
        self.timer.set_deadline(self._lease.stop_at)

    def end_lease(self) -> None:
        """End the lease together with its session."""
        self._lease.clear()
        self.timer.set_deadline(None)

    def _stop_if_lapsed(self) -> None:
        if self._lease.is_over:
            self._stop_work()
