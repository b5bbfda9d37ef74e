"""Host grants of the node: its shares of target hosts' budgets, divided over its executor processes.

    request       processes report their demand; the sum goes up with each sync
    grant         the leader grants shares of budgets to the node, which are divided over the processes
    acknowledge   a process acknowledges a version of its grants when it is in effect

The same rules hold here as among nodes: a process's share is given to another process when the first has acknowledged
the cut and the window has passed. A cut is acknowledged to the leader when it is in effect in all processes. Grants end
with the lease: each answered sync extends the time until which the processes' grants are valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from crawlfleet.execution.budget.host_gate import HOLD_S, HostUsage, ProcessShare
from crawlfleet.execution.budget.host_stats import HostStats
from crawlfleet.model import limits
from crawlfleet.model.host import NONE, HostNoteKind, Units
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.hosts.grant_versions import HostShares
from crawlfleet.wire.sync import GrantsBody, HostNewsBody, HostWantBody

IDLE_KEPT_S = 5.0
"""How long a host without demand is kept: the next task may need it."""
DEMAND_SYNC_S = 0.5
MAX_WANTED = 1_000
_NOTE_KINDS = frozenset(
    {HostNoteKind.TOO_MANY, HostNoteKind.UNAVAILABLE, HostNoteKind.BLOCKED, HostNoteKind.CRAWL_DELAY}
)


class LeaseDeadline(Protocol):
    """The node's lease, with which its grants end."""

    @property
    def stop_at(self) -> float | None:
        """Monotonic time at which work has to stop; None while there is no session."""
        ...


class GrantedProcess(Protocol):
    """An executor process that receives grants."""

    def send_grants(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None: ...

    def extend_grants(self, until: float) -> None: ...


@dataclass(slots=True)
class _GrantedHost:
    """One host with the node's grant and the demand of its processes."""

    shares: HostShares[int] = field(default_factory=HostShares)
    away_until: float = 0.0
    wanted: dict[int, int] = field(default_factory=dict)
    """Number of requests that could leave now, by process."""
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    idle_since: float | None = None
    is_pending: bool = False
    """Whether the last sync reported that a cut is not in effect yet."""


@dataclass(slots=True)
class _PendingNote:
    """A note on a host that no answered sync has carried yet."""

    span_ms: int
    sync_number: int | None = None
    """Number of the last sync that carried it."""


class HostGrants:
    """Divides the node's grants over its executor processes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lease: LeaseDeadline | None = None
        self._schedule_sync: Callable[[float], None] = _no_sync
        self._hosts: dict[str, _GrantedHost] = {}
        self._processes: dict[int, GrantedProcess] = {}
        self._versions: dict[int, int] = {}
        self._pending_notes: dict[tuple[str, int], _PendingNote] = {}
        self._crawl_delays: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.host_stats = HostStats(clock)
        self.applied_version = 0
        """Newest version of this session's grants that was applied."""

    def attach_sync(self, lease: LeaseDeadline, schedule_sync: Callable[[float], None]) -> None:
        """Connect to the session's lease; `schedule_sync` is called with the seconds within which a sync has to go."""
        self._lease, self._schedule_sync = lease, schedule_sync

    # -- from and to masters

    def start_session(self) -> None:
        """Revoke all grants: a new session starts with none."""
        self.applied_version = 0
        self.host_stats.start_session()
        self._crawl_delays.clear()
        for state in self._hosts.values():
            state.shares.pool = NONE
            state.counts = [0, 0, 0]
        self._divide_budgets()

    def build_report(self, number: int) -> tuple[list[HostWantBody], list[HostNewsBody]]:
        """Demand and notes of hosts for the sync of this number."""
        wants = []
        for host, state in islice(self._hosts.items(), limits.HOSTS_PER_SYNC):
            state.is_pending = not state.shares.is_in_effect
            requests, refused, blocked = state.counts
            wants.append(
                HostWantBody(
                    host,
                    self._total_wanted(state),
                    state.is_pending,
                    requests,
                    refused,
                    blocked,
                    in_use=state.shares.may_use.rate,
                )
            )
        notes = list(islice(self._pending_notes.items(), limits.HOSTS_PER_SYNC))
        for _, pending in notes:
            pending.sync_number = number
        return wants, [HostNewsBody(host, kind, pending.span_ms) for (host, kind), pending in notes]

    def sync_answered(self, number: int) -> None:
        """Drop the notes that the answered sync carried, and extend the grants of all processes."""
        arrived = [
            key
            for key, pending in self._pending_notes.items()
            if pending.sync_number is not None and pending.sync_number <= number
        ]
        for key in arrived:
            del self._pending_notes[key]
        self.host_stats.sync_answered(number)
        for process in self._versions:
            self._processes[process].extend_grants(self._valid_until)

    def apply_grants(self, body: GrantsBody | None) -> bool:
        """Apply the grants of an answer; True when their version is new."""
        if body is None or body.version <= self.applied_version:
            return False
        self.applied_version = body.version
        now = self._clock.monotonic()
        grants = {grant.host: grant for grant in body.hosts}
        for host, grant in grants.items():
            state = self._hosts.setdefault(host, _GrantedHost(idle_since=now))
            state.shares.pool = Units(grant.rate, grant.concurrency)
            state.shares.spacing_ms = grant.spacing_ms
            state.away_until = now + grant.away_ms / 1000 if grant.away_ms else 0.0
        for host in self._hosts.keys() - grants.keys():
            self._hosts[host].shares.pool = NONE
        self._divide_budgets()
        return True

    # -- from and to executor processes

    def add_process(self, number: int, process: GrantedProcess) -> None:
        self._processes[number] = process

    def remove_process(self, number: int) -> None:
        """Free the shares of a process that has ended."""
        if self._processes.pop(number, None) is None:
            return
        self._versions.pop(number, None)
        now = self._clock.monotonic()
        for state in self._hosts.values():
            state.wanted.pop(number, None)
            state.shares.end_holder(number, now)
        self._divide_budgets()

    def record_usage(self, number: int, uses: Sequence[HostUsage]) -> None:
        if number not in self._processes:
            return
        now = self._clock.monotonic()
        wanted = {use.host: min(use.wanted, MAX_WANTED) for use in uses if use.wanted > 0}
        is_new = False
        for use in uses:
            if not 0 < len(use.host) <= limits.HOST_CHARS:
                continue
            self.host_stats.add(use)
            if use.host not in self._hosts:
                if len(self._hosts) >= 2 * limits.HOSTS_PER_SYNC:
                    continue
                self._hosts[use.host] = _GrantedHost(idle_since=now)
                is_new = True
            for index, count in enumerate(use[2:5]):
                self._hosts[use.host].counts[index] += max(0, count)
        changed = False
        for host, state in self._hosts.items():
            if state.wanted.get(number, 0) != wanted.get(host, 0):
                changed = True
                is_new = is_new or not self._total_wanted(state)
                state.wanted[number] = wanted.get(host, 0)
        if changed:
            self._divide_budgets()
        if changed or is_new:
            self._schedule_sync(0.0 if is_new else DEMAND_SYNC_S)

    def acknowledge_grants(
        self, number: int, version: int, pending: Sequence[str], used: Mapping[str, int] | None = None
    ) -> None:
        now, counted = self._clock.monotonic(), used or {}
        for host, state in self._hosts.items():
            if host not in pending:
                state.shares.acknowledge_used(number, version, now, counted.get(host))
        self._divide_budgets()

    def record_host_note(self, host: str, kind: int, span_ms: int) -> None:
        """Keep a note on a host for the masters, and apply a refusal on this node at once."""
        state = self._hosts.get(host)
        if kind not in _NOTE_KINDS or state is None:
            return
        if kind == HostNoteKind.CRAWL_DELAY:
            if self._crawl_delays.get(host) == span_ms:
                return
            self._crawl_delays[host] = span_ms
        elif kind != HostNoteKind.BLOCKED:
            state.shares.pool = NONE
            state.away_until = max(state.away_until, self._clock.monotonic() + max(HOLD_S, span_ms / 1000))
            self._divide_budgets()
        self._pending_notes[host, kind] = _PendingNote(min(max(0, span_ms), limits.TIMEOUT_S_MAX * 1000))
        self._schedule_sync(0.0)

    # -- dividing

    @property
    def _valid_until(self) -> float:
        return 0.0 if self._lease is None else self._lease.stop_at or 0.0

    def _total_wanted(self, state: _GrantedHost) -> int | None:
        """Demand of all processes for a host; None for a host without demand for `IDLE_KEPT_S`."""
        wanted = sum(state.wanted.values())
        if wanted or state.idle_since is None:
            return wanted
        return 0 if self._clock.monotonic() - state.idle_since < IDLE_KEPT_S else None

    def _divide_budgets(self) -> None:
        now = self._clock.monotonic()
        changed: set[int] = set()
        next_versions = {number: self._versions.get(number, 0) + 1 for number in self._processes}
        for host, state in list(self._hosts.items()):
            changed |= self._divide_host(state, now, next_versions)
            # A host stays as long as a master counts its grant as given: so it is never granted twice.
            if self._total_wanted(state) is None and not state.shares.holders and state.shares.pool == NONE:
                del self._hosts[host]
        for number in changed & self._processes.keys():
            self._versions[number] = next_versions[number]
            self._processes[number].send_grants(next_versions[number], self._valid_until, self._process_shares(number))
        if any(state.is_pending and state.shares.is_in_effect for state in self._hosts.values()):
            # Other nodes wait for what was cut.
            self._schedule_sync(0.0)
        self._set_timer(now)

    def _divide_host(self, state: _GrantedHost, now: float, next_versions: dict[int, int]) -> set[int]:
        shares = state.shares
        wanted = self._total_wanted(state)
        if sum(state.wanted.values()):
            state.idle_since = None
        elif state.idle_since is None:
            state.idle_since = now
        for number in state.wanted:
            shares.set_wanted(number, None if wanted is None else state.wanted[number], now)
        shares.away_until = round(state.away_until * 1000) if state.away_until > now else 0
        shares.release_freed(now)
        return shares.divide_pool(now, next_versions | dict.fromkeys(shares.holders.keys() - next_versions.keys(), 0))

    def _process_shares(self, number: int) -> list[ProcessShare]:
        return [
            ProcessShare(host, *share.current, state.shares.spacing_ms, state.away_until)
            for host, state in self._hosts.items()
            if (share := state.shares.holders.get(number)) is not None
        ]

    def _set_timer(self, now: float) -> None:
        times = [due_at for state in self._hosts.values() if (due_at := state.shares.next_due_at(now)) is not None]
        idle = [state.idle_since + IDLE_KEPT_S for state in self._hosts.values() if state.idle_since is not None]
        times += [due_at for due_at in idle if due_at > now]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if times:
            self._timer = asyncio.get_running_loop().call_later(max(0.01, min(times) - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._divide_budgets()
        if any(self._total_wanted(state) is None for state in self._hosts.values()):
            # Another node may use its share now.
            self._schedule_sync(DEMAND_SYNC_S)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _no_sync(_within_s: float) -> None:
    """Default until a session is attached: no sync is scheduled."""
