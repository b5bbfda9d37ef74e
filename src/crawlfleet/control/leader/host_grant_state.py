"""The leader's state of one host: its record, the shares of its budget, and how the store has both."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.host_budget import NONE, Backoff, Host, HostLimits, HostShare
from crawlfleet.model.host_names import HostNews
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.host_store import GrantChange, HostNote
from crawlfleet.scheduling.hosts.budgets import budget_of
from crawlfleet.scheduling.hosts.grant_versions import HostShares, Share
from crawlfleet.scheduling.hosts.host_backoff import QUIET_MS, forgiven, refused
from crawlfleet.wire.sync import HostWantBody

Key = tuple[NodeId, int]
"""A session of a node."""


RECENT_COUNTS = 3
"""Number of recent counts that are averaged. A node reports sums with its syncs: a span may have none, or two."""


class HostState:
    def __init__(self, host: Host, at: float) -> None:
        self.host = host
        self.shares: HostShares[Key] = HostShares()
        self.due_at: float | None = None
        self._kept = host
        self._rows: dict[Key, HostShare] = {}
        """Shares as the store has them."""
        self._counted: dict[Key, tuple[int, int, int]] = {}
        self._counted_at = at
        self._spans: deque[tuple[float, int]] = deque(maxlen=RECENT_COUNTS)

    def load(self, row: HostShare, at: float) -> None:
        key = (row.node, row.session)
        self._rows[key] = row
        self._counted[key] = row.counted
        self.shares.holders[key] = Share(
            wanted=row.wanted, current=row.current, may_use=row.may_use, since=at, cut_version=row.cut_version
        )

    def reread(self, host: Host) -> None:
        """Take over the settings that a person changed; everything else of the host is the leader's."""
        self.host = replace(self.host, limits=host.limits, set_by=host.set_by, set_at=host.set_at)

    def note(self, note: HostNote, now: Instant, rng: Random) -> EventBatch | None:
        host = self.host
        if note.kind.is_refusal:
            backoff = refused(host.backoff, f"answered {note.kind.value}", note.span_ms, now, rng)
            self.host = replace(host, backoff=backoff)
            if backoff.level == host.backoff.level:
                return None
            said = {"host": host.name, "until": to_text(backoff.until), "level": backoff.level, "why": backoff.reason}
            return EventBatch(Kind.HOST_BACKOFF, shared=said | ({} if note.node is None else {"node": note.node}))
        if note.kind is HostNews.CRAWL_DELAY:
            self.host = replace(host, crawl_delay_ms=note.span_ms)
        elif note.kind is HostNews.FORGIVE and host.backoff.level:
            self.host = replace(host, backoff=Backoff())
            return EventBatch(Kind.HOST_FORGIVEN, shared={"host": host.name, "why": "a person said so"})
        return None

    def refresh(self, usual: HostLimits, now: Instant) -> EventBatch | None:
        """Update the pool that is divided, from limits and back-off as of now."""
        host = self.host
        backoff = forgiven(host.backoff, now)
        event = None
        if backoff != host.backoff:
            self.host = host = replace(host, backoff=backoff)
            if not backoff.level:
                event = EventBatch(Kind.HOST_FORGIVEN, shared={"host": host.name, "why": "it was quiet"})
        budget = budget_of(host.limits, usual, host.crawl_delay_ms / 1000, backoff.level)
        is_away = backoff.is_on(now)
        self.shares.pool = NONE if is_away else budget.pool
        self.shares.spacing_ms = budget.spacing_ms
        self.shares.away_until = backoff.until if is_away else 0
        return event

    def divide(self, version_of: Callable[[Key], int], now: Instant, at: float) -> set[Key]:
        """Divide the pool among the holders; returns those whose grant changed."""
        self.shares.settle(at)
        changed = self.shares.divide(at, {key: version_of(key) for key in self.shares.holders})
        times = [due_at for due_at in (self.shares.due_at(at),) if due_at is not None]
        backoff = self.host.backoff
        if backoff.level:
            wait_ms = backoff.until - now if backoff.is_on(now) else QUIET_MS
            times.append(at + wait_ms / 1000)
        self.due_at = min(times, default=None)
        return changed

    def count(self, wants: Mapping[Key, HostWantBody], now: Instant, at: float) -> None:
        """Add what sessions counted since the last time; they report sums since they began."""
        sums = [0, 0, 0]
        for key, want in wants.items():
            have = self._counted.get(key, (0, 0, 0))
            told = (want.requests, want.refused, want.blocked)
            since = (0, 0, 0) if told[0] < have[0] else have
            for place in range(3):
                sums[place] += max(0, told[place] - since[place])
            self._counted[key] = told
        host, span_s = self.host, max(0.001, at - self._counted_at)
        self._counted_at = at
        self._spans.append((span_s, sums[0]))
        recent = round(1000 * sum(count for _, count in self._spans) / sum(span for span, _ in self._spans))
        if any(sums) or host.recent_milli:
            self.host = replace(
                host,
                requests=host.requests + sums[0],
                refused=host.refused + sums[1],
                blocked=host.blocked + sums[2],
                recent_milli=recent,
                counted_at=now if any(sums) else host.counted_at,
            )

    def write(self, change: GrantChange, next_id: Callable[[], int]) -> None:
        """Add to `change` what the store does not have yet."""
        if self.host != self._kept:
            change.hosts.append(self.host)
            self._kept = self.host
        for key in self._rows.keys() - self.shares.holders.keys():
            change.gone.append(self._rows.pop(key).id)
            self._counted.pop(key, None)
        for key, share in self.shares.holders.items():
            have = self._rows.get(key)
            number = next_id() if have is None else have.id
            node, session = key
            row = HostShare(
                number,
                node,
                session,
                self.host.name,
                share.wanted,
                share.current,
                share.may_use,
                self.shares.spacing_ms,
                share.cut_version,
                self._counted.get(key, (0, 0, 0)),
            )
            if row != have:
                (change.new_shares if have is None else change.shares).append(row)
                self._rows[key] = row
