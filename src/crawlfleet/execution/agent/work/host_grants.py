"""The node's grants: what the leader gives it of hosts' budgets, divided over its executor processes.

The same rules hold here as among nodes: a process's part is given to another when the process has said that a cut is
in effect, and the window has passed. The leader hears that a cut is in effect when that is so in all processes. Grants
end with the lease: processes are told until when theirs are good, anew with each answered sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from crawlfleet.execution.agent.sync.host_stats import HostFigures
from crawlfleet.execution.agent.work.lease_guard import Lease
from crawlfleet.execution.budget.host_gate import HOLD_S, HostUse, ProcessShare
from crawlfleet.model import limits
from crawlfleet.model.host_budget import NONE, Units
from crawlfleet.model.host_names import HostNews
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.hosts.grant_versions import HostShares
from crawlfleet.wire.sync import GrantsBody, HostNewsBody, HostWantBody

LINGER_S = 5.0
"""A host that nobody wants any more is kept for so long: the next task may be for it."""
NEWS_S = 0.5
WANTED_MOST = 1_000
_HEARD = frozenset({HostNews.TOO_MANY, HostNews.UNAVAILABLE, HostNews.BLOCKED, HostNews.CRAWL_DELAY})


class GrantedProcess(Protocol):
    def grant(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None: ...

    def extend(self, until: float) -> None: ...


@dataclass(slots=True)
class _Target:
    shares: HostShares[int] = field(default_factory=HostShares)
    away_until: float = 0.0
    wanted: dict[int, int] = field(default_factory=dict)
    """By process."""
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    idle_since: float | None = None
    is_pending: bool = False
    """As it was told last."""


@dataclass(slots=True)
class _News:
    span_ms: int
    number: int | None = None
    """Of the sync it went with."""


class HostGrants:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lease: Lease | None = None
        self._tell: Callable[[float], None] = _unheard
        self._targets: dict[str, _Target] = {}
        self._processes: dict[int, GrantedProcess] = {}
        self._versions: dict[int, int] = {}
        self._news: dict[tuple[str, int], _News] = {}
        self._delays: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.figures = HostFigures(clock)
        self.taken = 0
        """The newest version of this session's grants."""

    def attach(self, lease: Lease, tell: Callable[[float], None]) -> None:
        """`tell` is asked for a sync within so many seconds."""
        self._lease, self._tell = lease, tell

    # -- what the masters hear and say

    def begin(self) -> None:
        """A new session has no grants; what processes had of the last one is taken from them."""
        self.taken = 0
        self.figures.begin()
        self._delays.clear()
        for target in self._targets.values():
            target.shares.pool = NONE
            target.counts = [0, 0, 0]
        self._divide()

    def up(self, number: int) -> tuple[list[HostWantBody], list[HostNewsBody]]:
        """For the sync of this number."""
        hosts = []
        for host, target in islice(self._targets.items(), limits.HOSTS_PER_SYNC):
            target.is_pending = not target.shares.is_in_effect
            requests, refused, blocked = target.counts
            hosts.append(
                HostWantBody(
                    host,
                    self._wanted(target),
                    target.is_pending,
                    requests,
                    refused,
                    blocked,
                    in_use=target.shares.may_use.rate,
                )
            )
        news = list(islice(self._news.items(), limits.HOSTS_PER_SYNC))
        for _, one in news:
            one.number = number
        return hosts, [HostNewsBody(host, kind, one.span_ms) for (host, kind), one in news]

    def told(self, number: int) -> None:
        """The sync of this number was answered: its news arrived, and grants are good for longer."""
        arrived = [key for key, one in self._news.items() if one.number is not None and one.number <= number]
        for key in arrived:
            del self._news[key]
        self.figures.told(number)
        for process in self._versions:
            self._processes[process].extend(self._until)

    def take(self, body: GrantsBody | None) -> bool:
        """Whether it was news."""
        if body is None or body.version <= self.taken:
            return False
        self.taken = body.version
        now = self._clock.monotonic()
        given = {grant.host: grant for grant in body.hosts}
        for host, grant in given.items():
            target = self._targets.setdefault(host, _Target(idle_since=now))
            target.shares.pool = Units(grant.rate, grant.concurrency)
            target.shares.spacing_ms = grant.spacing_ms
            target.away_until = now + grant.away_ms / 1000 if grant.away_ms else 0.0
        for host in self._targets.keys() - given.keys():
            self._targets[host].shares.pool = NONE
        self._divide()
        return True

    # -- what processes hear and say

    def opened(self, number: int, process: GrantedProcess) -> None:
        self._processes[number] = process

    def closed(self, number: int) -> None:
        """Nothing of the process runs any more."""
        if self._processes.pop(number, None) is None:
            return
        self._versions.pop(number, None)
        now = self._clock.monotonic()
        for target in self._targets.values():
            target.wanted.pop(number, None)
            target.shares.end_holder(number, now)
        self._divide()

    def use(self, number: int, uses: Sequence[HostUse]) -> None:
        if number not in self._processes:
            return
        now = self._clock.monotonic()
        wanted = {use.host: min(use.wanted, WANTED_MOST) for use in uses if use.wanted > 0}
        is_new = False
        for use in uses:
            if not 0 < len(use.host) <= limits.HOST_CHARS:
                continue
            self.figures.add(use)
            if use.host not in self._targets:
                if len(self._targets) >= 2 * limits.HOSTS_PER_SYNC:
                    continue
                self._targets[use.host] = _Target(idle_since=now)
                is_new = True
            for place, count in enumerate(use[2:5]):
                self._targets[use.host].counts[place] += max(0, count)
        changed = False
        for host, target in self._targets.items():
            if target.wanted.get(number, 0) != wanted.get(host, 0):
                changed = True
                is_new = is_new or not self._wanted(target)
                target.wanted[number] = wanted.get(host, 0)
        if changed:
            self._divide()
        if changed or is_new:
            self._tell(0.0 if is_new else NEWS_S)

    def acknowledge(
        self, number: int, version: int, pending: Sequence[str], used: Mapping[str, int] | None = None
    ) -> None:
        now, counted = self._clock.monotonic(), used or {}
        for host, target in self._targets.items():
            if host not in pending:
                target.shares.acknowledge_used(number, version, now, counted.get(host))
        self._divide()

    def hear(self, host: str, kind: int, span_ms: int) -> None:
        """News of a host, for all nodes. This one leaves it alone at once."""
        target = self._targets.get(host)
        if kind not in _HEARD or target is None:
            return
        if kind == HostNews.CRAWL_DELAY:
            if self._delays.get(host) == span_ms:
                return
            self._delays[host] = span_ms
        elif kind != HostNews.BLOCKED:
            target.shares.pool = NONE
            target.away_until = max(target.away_until, self._clock.monotonic() + max(HOLD_S, span_ms / 1000))
            self._divide()
        self._news[host, kind] = _News(min(max(0, span_ms), limits.TIMEOUT_S_MAX * 1000))
        self._tell(0.0)

    # -- dividing

    @property
    def _until(self) -> float:
        return 0.0 if self._lease is None else self._lease.stop_at or 0.0

    def _wanted(self, target: _Target) -> int | None:
        """None for a host that was wanted by nobody for long."""
        wanted = sum(target.wanted.values())
        if wanted or target.idle_since is None:
            return wanted
        return 0 if self._clock.monotonic() - target.idle_since < LINGER_S else None

    def _divide(self) -> None:
        now = self._clock.monotonic()
        changed: set[int] = set()
        next_versions = {number: self._versions.get(number, 0) + 1 for number in self._processes}
        for host, target in list(self._targets.items()):
            changed |= self._divide_one(target, now, next_versions)
            # As long as a master believes it given it is kept: it is not given a second time.
            if self._wanted(target) is None and not target.shares.holders and target.shares.pool == NONE:
                del self._targets[host]
        for number in changed & self._processes.keys():
            self._versions[number] = next_versions[number]
            self._processes[number].grant(next_versions[number], self._until, self._shares_of(number))
        if any(target.is_pending and target.shares.is_in_effect for target in self._targets.values()):
            # Others wait for what was cut.
            self._tell(0.0)
        self._set_timer(now)

    def _divide_one(self, target: _Target, now: float, next_versions: dict[int, int]) -> set[int]:
        shares = target.shares
        wanted = self._wanted(target)
        if sum(target.wanted.values()):
            target.idle_since = None
        elif target.idle_since is None:
            target.idle_since = now
        for number in target.wanted:
            shares.set_wanted(number, None if wanted is None else target.wanted[number], now)
        shares.away_until = round(target.away_until * 1000) if target.away_until > now else 0
        shares.release_freed(now)
        return shares.divide_pool(now, next_versions | dict.fromkeys(shares.holders.keys() - next_versions.keys(), 0))

    def _shares_of(self, number: int) -> list[ProcessShare]:
        return [
            ProcessShare(host, *share.current, target.shares.spacing_ms, target.away_until)
            for host, target in self._targets.items()
            if (share := target.shares.holders.get(number)) is not None
        ]

    def _set_timer(self, now: float) -> None:
        times = [at for target in self._targets.values() if (at := target.shares.next_due_at(now)) is not None]
        idle = [target.idle_since + LINGER_S for target in self._targets.values() if target.idle_since is not None]
        times += [at for at in idle if at > now]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if times:
            self._timer = asyncio.get_running_loop().call_later(max(0.01, min(times) - now), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._divide()
        if any(self._wanted(target) is None for target in self._targets.values()):
            # Somebody else may have it.
            self._tell(NEWS_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _unheard(_within_s: float) -> None:
    """For a node that speaks to nobody yet."""
