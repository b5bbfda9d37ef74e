"""The node's side of the lease.

A lease is counted from the moment the last answered sync was sent: the master cannot have counted from an earlier one.
Before it ends the node stops its own work, since from then on a master may give that work to another node.

The guard has a task of its own, so that it stops the work also while a call to a master hangs. A process that was
stopped for long (SIGSTOP, a suspended machine) wakes up with everything due at once, in any order: therefore whoever
starts an execution or takes its result asks the lease first, and does not wait for the guard to have run. The clock
counts the machine's sleep, and the guard looks at it again every second, as timers do not.
"""

from __future__ import annotations

from collections.abc import Callable

from crawlfleet.execution.agent.work.deadline_timer import Alarm
from crawlfleet.ports.clock import Clock

MARGIN_S = 2.0


class Lease:
    def __init__(self, clock: Clock, margin_s: float = MARGIN_S) -> None:
        self._clock = clock
        self._margin_s = margin_s
        self._span_s = 0.0
        self.stop_at: float | None = None
        """When work has to stop; None while there is no session."""

    @property
    def left_s(self) -> float:
        return 0.0 if self.stop_at is None else self.stop_at - self._clock.monotonic()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    def begin(self, lease_s: float, sent_at: float) -> None:
        self._span_s = lease_s - min(self._margin_s, lease_s / 3)
        self.stop_at = sent_at + self._span_s

    def renew(self, sent_at: float) -> None:
        if self.stop_at is not None:
            self.stop_at = max(self.stop_at, sent_at + self._span_s)

    def end(self) -> None:
        self.stop_at = None


class LeaseGuard:
    def __init__(self, lease: Lease, clock: Clock, stop_work: Callable[[], None]) -> None:
        self._lease = lease
        self._stop_work = stop_work
        self.alarm = Alarm(clock, self._lapse)

    def begin(self, lease_s: float, sent_at: float) -> None:
        self._lease.begin(lease_s, sent_at)
        self.alarm.set(self._lease.stop_at)

    def renew(self, sent_at: float) -> None:
        """A sync sent then was answered: its session lives."""
        self._lease.renew(sent_at)
        self.alarm.set(self._lease.stop_at)

    def end(self) -> None:
        """The session is over, and with it everything it held."""
        self._lease.end()
        self.alarm.set(None)

    def _lapse(self) -> None:
        if self._lease.is_over:
            self._stop_work()
