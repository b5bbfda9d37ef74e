"""Host statistics: what the node's processes counted per target host, sent to a master in batches.

One batch is under way at a time. It is frozen when it is made and goes with every sync under the same number until one
of them is answered; what is counted meanwhile waits for the next batch. So a batch whose answer was lost is the same
batch again, which the store has added already, and nothing counts twice.
"""

from __future__ import annotations

import math
from itertools import islice

from crawlfleet.execution.budget.host_gate import HostUsage
from crawlfleet.model import limits
from crawlfleet.model.host_stats import ALL_HOSTS, BLOCKED, REQUESTS, add_row, empty_row
from crawlfleet.ports.clock import Clock
from crawlfleet.wire.sync import HostFiguresBody

BATCH_EVERY_S = 5.0
MAX_NAMED_HOSTS = 2_000
"""Maximum of hosts counted by name between two batches; further hosts are counted together as ALL_HOSTS."""
MAX_COUNT = 1 << 40


class HostStats:
    """Counts of target hosts, and the batch of them under way to a master."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, list[int]] = {}
        self._batch: HostFiguresBody | None = None
        self._first_sync: int | None = None
        """Number of the first sync of this session that carried the batch."""
        self._batch_number = 0
        self._batch_made_at = -math.inf

    def add(self, use: HostUsage) -> None:
        counts = (use.requests, use.blocked, *use.figures)
        # User code may share the process: counts that a master would refuse must not get into a sync.
        if not any(counts) or not all(0 <= count <= MAX_COUNT for count in counts):
            return
        host = use.host if use.host in self._counts or len(self._counts) < MAX_NAMED_HOSTS else ALL_HOSTS
        counted = self._counts.get(host)
        if counted is None:
            counted = self._counts[host] = empty_row()
        add_row(counted, use.figures)
        counted[REQUESTS] += use.requests
        counted[BLOCKED] += use.blocked

    def start_session(self) -> None:
        """Start over with the sync numbers of a new session."""
        self._first_sync = None

    def next_batch(self, session: int, number: int, *, is_last: bool = False) -> HostFiguresBody | None:
        """The batch that the sync of this number carries, if any."""
        now = self._clock.monotonic()
        if self._batch is None and self._counts and (is_last or now - self._batch_made_at >= BATCH_EVERY_S):
            self._batch_made_at = now
            self._batch_number += 1
            # In the order in which they came: none waits for ever behind busier ones.
            names = list(islice(self._counts, limits.FIGURES_PER_SYNC))
            hosts = [(name, [min(count, MAX_COUNT) for count in self._counts.pop(name)]) for name in names]
            self._batch = HostFiguresBody(session, self._batch_number, hosts)
        if self._batch is not None and self._first_sync is None:
            self._first_sync = number
        return self._batch

    def sync_answered(self, number: int) -> None:
        """Drop the batch if the sync of this number carried it: the answer means that it is in the store."""
        if self._first_sync is not None and number >= self._first_sync:
            self._batch = self._first_sync = None
