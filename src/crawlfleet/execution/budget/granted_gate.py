"""Where every request to a target host passes: no grant, no request.

An executor process has one gate for all its executions. It is given parts of hosts' budgets by its agent (which has
them from the leader) and paces by itself, so that no request costs a message. Requests of a host leave one after the
other, spaced by a little more than their share, without bursts: what was missed is not made up for.

    until       a grant is good until an instant of the machine's boot clock, which all its processes share. It is
                looked at before each request and once more when its connection stands: a process that was stopped
                meanwhile sends nothing when it wakes up.
    depart      when its connection stands a request may have to wait once more: connections take their time, and
                turns that were well apart must not leave together.
    use         how many requests could leave is told when it changes; a new host at once
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
    HostUse,
    NoGrant,
    ProcessShare,
    Wanting,
)
from crawlfleet.execution.budget.rate_window import Lately
from crawlfleet.model import host_stats
from crawlfleet.model.host_budget import EASE
from crawlfleet.model.host_names import HostNews
from crawlfleet.ports.clock import boot_time

LAG_S, LAG_FROM = 0.02, 50
"""From this rate on timers are too coarse: so much may be made up for, well within what the ease leaves."""
SLACK_S = 0.045
"""So much sooner than its time a request may leave: less than what the ease leaves in a second."""
TELL_S = 0.5
WANTED_MOST = 64
HOSTS_TOLD = 200
BLOCK_EVERY_S = 600.0
"""A wall that stands is told of so often: it is one block, however many pages run into it."""


@dataclass(slots=True)
class _Target:
    share: ProcessShare
    spacing_s: float = math.inf
    lag_s: float = 0.0
    sent_at: float = -math.inf
    next_at: float = -math.inf
    left_at: float = -math.inf
    """When the last request left on its connection, or should have."""
    slack_s: float = 0.0
    hold_until: float = 0.0
    delay_s: float = 0.0
    """Of robots.txt, until the leader's grants say so."""
    open: int = 0
    is_pending: bool = False
    queue: deque[asyncio.Future[None]] = field(default_factory=deque)
    """The first one waits for its time, the others to become the first."""
    head: asyncio.Future[None] | None = None
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    figures: list[int] = field(default_factory=host_stats.nothing)
    block_told_at: float = -math.inf
    lately: Lately = field(default_factory=Lately)

    def use(self, wanted: int) -> HostUse:
        figures = tuple(self.figures) if any(self.figures) else ()
        requests, refused, blocked = self.counts
        return HostUse(self.share.host, wanted, requests, refused, blocked, figures)

    def told(self) -> None:
        self.counts = [0, 0, 0]
        # In place: a request under way goes on adding to it.
        self.figures[:] = host_stats.nothing()

    def take(self, share: ProcessShare) -> None:
        if (share.rate and not self.share.rate) or (self.share.away_until and not share.away_until):
            # Whoever gives it back, or ends its back-off, knows of the refusal.
            self.hold_until = 0.0
        self.share, rate = share, share.rate
        self.spacing_s = math.inf if rate < 1 else share.spacing_ms / 1000 if share.spacing_ms else EASE / rate
        self.spacing_s = max(self.spacing_s, EASE * self.delay_s)
        self.slack_s = 0.0 if share.spacing_ms or self.delay_s else SLACK_S
        self.lag_s = LAG_S if rate >= LAG_FROM and self.spacing_s < LAG_S else 0.0
        self.next_at = self.sent_at + self.spacing_s if self.sent_at > -math.inf else -math.inf
        self.is_pending = self.open > share.concurrency
        self.wake()

    def wait_s(self, now: float, until: float) -> float:
        """Until the next request may leave; infinite: until something changes."""
        share = self.share
        if now >= until or share.rate < 1 or self.open >= share.concurrency or share.away_until > now:
            return math.inf
        return max(self.next_at, self.hold_until) - now

    def send(self, now: float) -> None:
        self.open += 1
        self.sent_at = now
        self.next_at = max(self.next_at, now - self.lag_s) + self.spacing_s

    def wake(self) -> None:
        if self.head is not None and not self.head.done():
            self.head.set_result(None)


class GrantedGate:
    def __init__(self, link: GateLink, clock: Callable[[], float] = boot_time) -> None:
        self._link = link
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._targets: dict[str, _Target] = {}
        self._wanting: set[Wanting] = set()
        self._until = 0.0
        self._version = 0
        self._told: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_hurried = False

    # -- what the agent says

    def take(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        """All shares of this process: a host that is not among them has none."""
        self._version, self._until = version, until
        given = {share.host: share for share in shares}
        for host in given.keys() - self._targets.keys():
            self._targets[host] = _Target(given[host])
        for host, target in self._targets.items():
            target.take(given.get(host, ProcessShare(host)))
        self._tell_taken()
        self._wake_all()

    def extend(self, until: float) -> None:
        was_over = self._clock() >= self._until
        self._until = until
        if was_over:
            for target in self._targets.values():
                target.wake()
            self._wake_all()

    # -- what executions do

    async def begin(self, host: str) -> None:
        target = self._target(host)
        if not target.queue and target.wait_s(now := self._clock(), self._until) <= 0:
            target.send(now)
            return
        mine: asyncio.Future[None] = self._loop.create_future()
        target.queue.append(mine)
        self._tell_within(TELL_S)
        try:
            if target.queue[0] is not mine:
                await mine
            while (wait_s := target.wait_s(self._clock(), self._until)) > 0:
                if (away_s := self.away_s(host)) > PATIENCE_S:
                    raise HostAway(host, away_s)
                await self._pause(target, wait_s)
            target.send(self._clock())
        finally:
            target.queue.remove(mine)
            if target.queue and not target.queue[0].done():
                target.queue[0].set_result(None)

    async def _pause(self, target: _Target, wait_s: float) -> None:
        head = target.head = self._loop.create_future()
        timer = None if wait_s == math.inf else self._loop.call_later(wait_s, target.wake)
        try:
            await head
        finally:
            target.head = None
            if timer is not None:
                timer.cancel()

    def end(self, host: str) -> None:
        target = self._targets[host]
        target.open -= 1
        target.wake()
        if target.is_pending and target.open <= target.share.concurrency:
            target.is_pending = False
            self._tell_taken()

    async def depart(self, host: str, *, is_repeat: bool = False) -> None:
        target = self._targets[host]
        while True:
            now = self._clock()
            if now >= self._until or target.share.rate < 1 or target.hold_until > now:
                raise NoGrant(host)
            early_s = target.left_at + target.spacing_s - target.slack_s - now
            if early_s <= 0:
                break
            # Whoever else wakes up then has to look again: it may be behind this one.
            await asyncio.sleep(early_s)
        target.left_at = max(target.left_at + target.spacing_s, now)
        target.lately.count += 1
        target.counts[0] += not is_repeat

    def is_ready(self, host: str) -> bool:
        target = self._targets.get(host)
        if target is None:
            return True
        # One that the agent has not heard of yet has to be lined up for, or it never will.
        has_grant = target.share.rate > 0 and target.share.concurrency > 0
        return self.away_s(host) <= 0 and (has_grant or host not in self._told)

    def away_s(self, host: str) -> float:
        target = self._targets.get(host)
        return 0.0 if target is None else max(target.share.away_until, target.hold_until) - self._clock()

    def answered(self, host: str, status: int, retry_after_s: float) -> None:
        target = self._target(host)
        if status in {429, 503}:
            target.counts[1] += 1
            target.hold_until = max(target.hold_until, self._clock() + max(HOLD_S, retry_after_s))
            self._link.news(host, status, round(retry_after_s * 1000))

    def blocked(self, host: str) -> None:
        self._target(host).counts[2] += 1

    def tell_block(self, host: str) -> None:
        target, now = self._target(host), self._clock()
        if now - target.block_told_at >= BLOCK_EVERY_S:
            target.block_told_at = now
            self._link.news(host, HostNews.BLOCKED, 0)

    def figures(self, host: str) -> list[int]:
        return self._target(host).figures

    def awaited_share(self, host: str) -> ProcessShare | None:
        target = self._targets.get(host)
        return target.share if target is not None and target.queue and target.share.rate else None

    def asks_for(self, host: str, delay_s: float) -> None:
        target = self._target(host)
        if delay_s != target.delay_s or (target.share.spacing_ms and not delay_s):
            target.delay_s = delay_s
            target.take(target.share)
            self._link.news(host, HostNews.CRAWL_DELAY, round(delay_s * 1000))

    def enter(self, wanting: Wanting) -> None:
        self._wanting.add(wanting)
        self._tell_within(0.0)

    def leave(self, wanting: Wanting) -> None:
        self._wanting.discard(wanting)
        self._tell_within(0.0)

    def tell(self) -> None:
        """What was counted and is not told yet, now."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    # -- what the agent is told

    def _target(self, host: str) -> _Target:
        target = self._targets.get(host)
        if target is None:
            target = self._targets[host] = _Target(ProcessShare(host))
        if host not in self._told:
            self._tell_within(0.0)
        return target

    def _tell_within(self, span_s: float) -> None:
        if self._timer is not None:
            if span_s > 0 or self._is_hurried:
                return
            self._timer.cancel()
        self._is_hurried = span_s == 0
        # Even at once is after this turn of the loop: an execution that ends and one that starts are one message.
        self._timer = self._loop.call_later(span_s, self._tell)

    def _tell(self) -> None:
        self._timer, self._is_hurried = None, False
        wants = self._wants()
        uses = [
            target.use(wants.get(host, 0))
            for host, target in self._targets.items()
            if wants.get(host) or any(target.counts) or any(target.figures)
        ]
        if wants != self._told or any(any(use[2:]) for use in uses):
            self._told = wants
            self._link.use(uses)
        now = self._clock()
        for host, target in list(self._targets.items()):
            target.told()
            target.lately.mark(now)
            is_idle = not (wants.get(host) or target.open or target.queue)
            has_grant = target.share.rate or target.share.concurrency
            if is_idle and not has_grant and not target.lately.left(now):
                del self._targets[host]
        if self._targets:
            self._tell_within(TELL_S)

    def _wants(self) -> dict[str, int]:
        """Coarsely: half as many or twice as many is no news."""
        wants = {host: target.open + len(target.queue) for host, target in self._targets.items()}
        for wanting in self._wanting:
            for host, count in wanting.queued().items():
                if host in wants or len(wants) < HOSTS_TOLD:
                    wants[host] = wants.get(host, 0) + count
                    if host not in self._targets:
                        self._targets[host] = _Target(ProcessShare(host))
        return {host: min(WANTED_MOST, 1 << (count - 1).bit_length()) for host, count in wants.items() if count}

    def _tell_taken(self) -> None:
        pending = [host for host, target in self._targets.items() if target.is_pending]
        now = self._clock()
        used = {host: target.lately.left(now) for host, target in self._targets.items() if not target.is_pending}
        self._link.taken(self._version, pending, used)

    def _wake_all(self) -> None:
        for wanting in self._wanting:
            wanting.wake()
