"""What the node's processes counted of target hosts, on its way to a master in batches.

One batch is under way at a time. It is frozen when it is made and goes with every sync under the same name until one
of them is answered; what is counted meanwhile waits for the next. So a batch whose answer was lost is the same batch
again, which the store has taken already, and nothing counts twice.
"""

from __future__ import annotations

import math
from itertools import islice

from crawlfleet.execution.budget.host_gate import HostUse
from crawlfleet.model import limits
from crawlfleet.model.host_stats import ALL_HOSTS, BLOCKED, REQUESTS, add, nothing
from crawlfleet.ports.clock import Clock
from crawlfleet.wire.sync import HostFiguresBody

EVERY_S = 5.0
HOSTS = 2_000
"""By name, between two batches; what is counted of others is counted of all hosts."""
COUNT_MOST = 1 << 40


class HostFigures:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: dict[str, list[int]] = {}
        self._batch: HostFiguresBody | None = None
        self._went_with: int | None = None
        """The first sync of this session that carried the batch."""
        self._number = 0
        self._made_at = -math.inf

    def add(self, use: HostUse) -> None:
        counts = (use.requests, use.blocked, *use.figures)
        # Users' code may share the process: what no master would take must not get into a sync.
        if not any(counts) or not all(0 <= count <= COUNT_MOST for count in counts):
            return
        host = use.host if use.host in self._counted or len(self._counted) < HOSTS else ALL_HOSTS
        counted = self._counted.get(host)
        if counted is None:
            counted = self._counted[host] = nothing()
        add(counted, use.figures)
        counted[REQUESTS] += use.requests
        counted[BLOCKED] += use.blocked

    def begin(self) -> None:
        """A new session: its syncs are numbered anew."""
        self._went_with = None

    def up(self, session: int, number: int, *, is_last: bool = False) -> HostFiguresBody | None:
        """For the sync of this number."""
        now = self._clock.monotonic()
        if self._batch is None and self._counted and (is_last or now - self._made_at >= EVERY_S):
            self._made_at = now
            self._number += 1
            # In the order in which they came: none waits for ever behind busier ones.
            names = list(islice(self._counted, limits.FIGURES_PER_SYNC))
            hosts = [(name, [min(count, COUNT_MOST) for count in self._counted.pop(name)]) for name in names]
            self._batch = HostFiguresBody(session, self._number, hosts)
        if self._batch is not None and self._went_with is None:
            self._went_with = number
        return self._batch

    def told(self, number: int) -> None:
        """The sync of this number was answered: what it carried is in the store."""
        if self._went_with is not None and number >= self._went_with:
            self._batch = self._went_with = None
