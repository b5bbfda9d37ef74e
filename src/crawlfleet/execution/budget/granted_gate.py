"""The granted gate, which every request to a target host passes: no grant, no request.

An executor process has one gate for all its executions. Its agent grants it shares of hosts' budgets (which the leader
granted to the node) and it paces by itself, so that no request costs a message. Requests to a host leave one after the
other, spaced by a little more than their share, without bursts: what was missed is not made up for.

    validity    a grant is valid until an instant of the machine's boot clock, which all its processes share. It is
                checked before each request and once more when its connection is open: a process that was stopped
                meanwhile sends nothing when it wakes up.
    departure   when its connection is open a request may have to wait once more: connections take different times,
                and requests with turns well apart must not leave together.
    demand      the number of requests that could leave is reported when it changes; a new host at once
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crawlfleet.execution.budget.host_gate import (
    HOLD_S,
    PATIENCE_S,
    GateLink,
    HostAway,
    HostUsage,
    NoGrant,
    ProcessShare,
    RequestSource,
)
from crawlfleet.execution.budget.rate_window import DepartureWindow
from crawlfleet.model import host_stats
from crawlfleet.model.host import EASE, HostNoteKind
from crawlfleet.ports.clock import boot_time

LAG_S, LAG_FROM = 0.02, 50
"""Lag that may be made up for from this rate on, where timers are too coarse; well within what EASE leaves."""
SLACK_S = 0.045
"""How much earlier than its time a request may leave: less than what EASE leaves in a second."""
REPORT_S = 0.5
MAX_WANTED = 64
MAX_REPORTED_HOSTS = 200
BLOCK_REPORT_S = 600.0
"""How often a lasting block is reported: it is one block, however many pages it hits."""


@dataclass(slots=True)
class _PacedHost:
    """One host at the gate: the process's share of it, its pace and its queue."""

    share: ProcessShare
    spacing_s: float = math.inf
    lag_s: float = 0.0
    sent_at: float = -math.inf
    next_at: float = -math.inf
    departed_at: float = -math.inf
    """Monotonic time at which the last request left on its connection, or should have."""
    slack_s: float = 0.0
    hold_until: float = 0.0
    delay_s: float = 0.0
    """Crawl delay of robots.txt, until the leader's grants include it."""
    open_requests: int = 0
    is_pending: bool = False
    queue: deque[asyncio.Future[None]] = field(default_factory=deque)
    """Waiting requests: the first waits for its time, the others to become the first."""
    head: asyncio.Future[None] | None = None
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    figures: list[int] = field(default_factory=host_stats.empty_row)
    block_reported_at: float = -math.inf
    departures: DepartureWindow = field(default_factory=DepartureWindow)

    def usage(self, wanted: int) -> HostUsage:
        figures = tuple(self.figures) if any(self.figures) else ()
        requests, refused, blocked = self.counts
        return HostUsage(self.share.host, wanted, requests, refused, blocked, figures)

    def reset_counts(self) -> None:
        self.counts = [0, 0, 0]
        # In place: a request under way goes on adding to it.
        self.figures[:] = host_stats.empty_row()

    def apply_share(self, share: ProcessShare) -> None:
        if (share.rate and not self.share.rate) or (self.share.away_until and not share.away_until):
            # The agent knows of the refusal when it restores the share, or ends the back-off.
            self.hold_until = 0.0
        self.share, rate = share, share.rate
        self.spacing_s = math.inf if rate < 1 else share.spacing_ms / 1000 if share.spacing_ms else EASE / rate
        self.spacing_s = max(self.spacing_s, EASE * self.delay_s)
        self.slack_s = 0.0 if share.spacing_ms or self.delay_s else SLACK_S
        self.lag_s = LAG_S if rate >= LAG_FROM and self.spacing_s < LAG_S else 0.0
        self.next_at = self.sent_at + self.spacing_s if self.sent_at > -math.inf else -math.inf
        self.is_pending = self.open_requests > share.concurrency
        self.wake()

    def wait_s(self, now: float, until: float) -> float:
        """Time until the next request may leave; infinite: until something changes."""
        share = self.share
        if now >= until or share.rate < 1 or self.open_requests >= share.concurrency or share.away_until > now:
            return math.inf
        return max(self.next_at, self.hold_until) - now

    def begin_request(self, now: float) -> None:
        self.open_requests += 1
        self.sent_at = now
        self.next_at = max(self.next_at, now - self.lag_s) + self.spacing_s

    def wake(self) -> None:
        if self.head is not None and not self.head.done():
            self.head.set_result(None)


class GrantedGate:
    """Implements `host_gate.HostGate` with the grants of the agent."""

    def __init__(self, link: GateLink, clock: Callable[[], float] = boot_time) -> None:
        self._link = link
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._hosts: dict[str, _PacedHost] = {}
        self._sources: set[RequestSource] = set()
        self._until = 0.0
        self._version = 0
        self._reported: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_report_urgent = False

    # -- from the agent

    def apply_grants(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        """Apply all shares of this process: a host that is not among them has none."""
        self._version, self._until = version, until
        shares_by_host = {share.host: share for share in shares}
        for host in shares_by_host.keys() - self._hosts.keys():
            self._hosts[host] = _PacedHost(shares_by_host[host])
        for host, state in self._hosts.items():
            state.apply_share(shares_by_host.get(host, ProcessShare(host)))
        self._acknowledge_grants()
        self._wake_sources()

    def extend_grants(self, until: float) -> None:
        was_over = self._clock() >= self._until
        self._until = until
        if was_over:
            for state in self._hosts.values():
                state.wake()
            self._wake_sources()

    # -- from executions

    async def begin_request(self, host: str) -> None:
        state = self._host(host)
        if not state.queue and state.wait_s(now := self._clock(), self._until) <= 0:
            state.begin_request(now)
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        state.queue.append(turn)
        self._schedule_report(REPORT_S)
        try:
            if state.queue[0] is not turn:
                await turn
            while (wait_s := state.wait_s(self._clock(), self._until)) > 0:
                if (away_s := self.away_s(host)) > PATIENCE_S:
                    raise HostAway(host, away_s)
                await self._wait_for_turn(state, wait_s)
            state.begin_request(self._clock())
        finally:
            state.queue.remove(turn)
            if state.queue and not state.queue[0].done():
                state.queue[0].set_result(None)

    async def _wait_for_turn(self, state: _PacedHost, wait_s: float) -> None:
        head = state.head = self._loop.create_future()
        timer = None if wait_s == math.inf else self._loop.call_later(wait_s, state.wake)
        try:
            await head
        finally:
            state.head = None
            if timer is not None:
                timer.cancel()

    def end_request(self, host: str) -> None:
        state = self._hosts[host]
        state.open_requests -= 1
        state.wake()
        if state.is_pending and state.open_requests <= state.share.concurrency:
            state.is_pending = False
            self._acknowledge_grants()

    async def await_departure(self, host: str, *, is_repeat: bool = False) -> None:
        state = self._hosts[host]
        while True:
            now = self._clock()
            if now >= self._until or state.share.rate < 1 or state.hold_until > now:
                raise NoGrant(host)
            early_s = state.departed_at + state.spacing_s - state.slack_s - now
            if early_s <= 0:
                break
            # Another request may have left meanwhile: check again.
            await asyncio.sleep(early_s)
        state.departed_at = max(state.departed_at + state.spacing_s, now)
        state.departures.total += 1
        state.counts[0] += not is_repeat

    def is_ready(self, host: str) -> bool:
        state = self._hosts.get(host)
        if state is None:
            return True
        # A host that was not reported to the agent yet needs a queued request to be reported at all.
        has_grant = state.share.rate > 0 and state.share.concurrency > 0
        return self.away_s(host) <= 0 and (has_grant or host not in self._reported)

    def away_s(self, host: str) -> float:
        state = self._hosts.get(host)
        return 0.0 if state is None else max(state.share.away_until, state.hold_until) - self._clock()

    def record_answer(self, host: str, status: int, retry_after_s: float) -> None:
        state = self._host(host)
        if status in {429, 503}:
            state.counts[1] += 1
            state.hold_until = max(state.hold_until, self._clock() + max(HOLD_S, retry_after_s))
            self._link.report_host_note(host, status, round(retry_after_s * 1000))

    def record_block(self, host: str) -> None:
        self._host(host).counts[2] += 1

    def report_block(self, host: str) -> None:
        state, now = self._host(host), self._clock()
        if now - state.block_reported_at >= BLOCK_REPORT_S:
            state.block_reported_at = now
            self._link.report_host_note(host, HostNoteKind.BLOCKED, 0)

    def host_counts(self, host: str) -> list[int]:
        return self._host(host).figures

    def awaited_share(self, host: str) -> ProcessShare | None:
        state = self._hosts.get(host)
        return state.share if state is not None and state.queue and state.share.rate else None

    def set_crawl_delay(self, host: str, delay_s: float) -> None:
        state = self._host(host)
        if delay_s != state.delay_s or (state.share.spacing_ms and not delay_s):
            state.delay_s = delay_s
            state.apply_share(state.share)
            self._link.report_host_note(host, HostNoteKind.CRAWL_DELAY, round(delay_s * 1000))

    def add_source(self, source: RequestSource) -> None:
        self._sources.add(source)
        self._schedule_report(0.0)

    def remove_source(self, source: RequestSource) -> None:
        self._sources.discard(source)
        self._schedule_report(0.0)

    def send_report(self) -> None:
        """Send the counts that are not reported yet, now."""
        if self._timer is not None:
            self._timer.cancel()
        self._report_usage()

    # -- to the agent

    def _host(self, host: str) -> _PacedHost:
        state = self._hosts.get(host)
        if state is None:
            state = self._hosts[host] = _PacedHost(ProcessShare(host))
        if host not in self._reported:
            self._schedule_report(0.0)
        return state

    def _schedule_report(self, span_s: float) -> None:
        if self._timer is not None:
            if span_s > 0 or self._is_report_urgent:
                return
            self._timer.cancel()
        self._is_report_urgent = span_s == 0
        # Even at once is after this turn of the loop: an execution that ends and one that starts are one message.
        self._timer = self._loop.call_later(span_s, self._report_usage)

    def _report_usage(self) -> None:
        self._timer, self._is_report_urgent = None, False
        wanted = self._count_wanted()
        uses = [
            state.usage(wanted.get(host, 0))
            for host, state in self._hosts.items()
            if wanted.get(host) or any(state.counts) or any(state.figures)
        ]
        if wanted != self._reported or any(any(use[2:]) for use in uses):
            self._reported = wanted
            self._link.report_usage(uses)
        now = self._clock()
        for host, state in list(self._hosts.items()):
            state.reset_counts()
            state.departures.tick(now)
            is_idle = not (wanted.get(host) or state.open_requests or state.queue)
            has_grant = state.share.rate or state.share.concurrency
            if is_idle and not has_grant and not state.departures.recent_count(now):
                del self._hosts[host]
        if self._hosts:
            self._schedule_report(REPORT_S)

    def _count_wanted(self) -> dict[str, int]:
        """Demand by host, rounded up to a power of two so that small changes are not reported."""
        wanted = {host: state.open_requests + len(state.queue) for host, state in self._hosts.items()}
        for source in self._sources:
            for host, count in source.queued().items():
                if host in wanted or len(wanted) < MAX_REPORTED_HOSTS:
                    wanted[host] = wanted.get(host, 0) + count
                    if host not in self._hosts:
                        self._hosts[host] = _PacedHost(ProcessShare(host))
        return {host: min(MAX_WANTED, 1 << (count - 1).bit_length()) for host, count in wanted.items() if count}

    def _acknowledge_grants(self) -> None:
        pending = [host for host, state in self._hosts.items() if state.is_pending]
        now = self._clock()
        used = {host: state.departures.recent_count(now) for host, state in self._hosts.items() if not state.is_pending}
        self._link.acknowledge_grants(self._version, pending, used)

    def _wake_sources(self) -> None:
        for source in self._sources:
            source.wake()
