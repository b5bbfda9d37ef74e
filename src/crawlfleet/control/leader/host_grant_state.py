"""The leader's state of one host: its record, the shares of its budget, and how the store has both."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.host import NONE, Backoff, Host, HostLimits, HostNoteKind, HostShare
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.host_store import GrantChange, HostNote
from crawlfleet.scheduling.hosts.budgets import effective_budget
from crawlfleet.scheduling.hosts.grant_versions import HolderShare, HostShares
from crawlfleet.scheduling.hosts.host_backoff import QUIET_MS, backoff_after_quiet, backoff_after_refusal
from crawlfleet.wire.sync import HostWantBody

SessionKey = tuple[NodeId, int]
"""A session of a node."""


RECENT_SPANS = 3
"""Number of recent counts that are averaged. A node reports sums with its syncs: a span may have none, or two."""


class HostGrantState:
    """One host: its record, its shares, and what the store has of both."""

    def __init__(self, host: Host, now_mono: float) -> None:
        self.host = host
        self.shares: HostShares[SessionKey] = HostShares()
        self.due_at: float | None = None
        self._stored_host = host
        self._stored_shares: dict[SessionKey, HostShare] = {}
        """Shares as the store has them."""
        self._counted_totals: dict[SessionKey, tuple[int, int, int]] = {}
        self._counted_at = now_mono
        self._recent_counts: deque[tuple[float, int]] = deque(maxlen=RECENT_SPANS)

    def load_share(self, row: HostShare, now_mono: float) -> None:
        key = (row.node, row.session)
        self._stored_shares[key] = row
        self._counted_totals[key] = row.counted
        self.shares.holders[key] = HolderShare(
            wanted=row.wanted, current=row.current, may_use=row.may_use, since=now_mono, cut_version=row.cut_version
        )

    def apply_settings(self, host: Host) -> None:
        """Take over the settings that a person changed; everything else of the host is the leader's."""
        self.host = replace(self.host, limits=host.limits, set_by=host.set_by, set_at=host.set_at)

    def apply_note(self, note: HostNote, now: Instant, rng: Random) -> EventBatch | None:
        host = self.host
        if note.kind.is_refusal:
            backoff = backoff_after_refusal(host.backoff, f"answered {note.kind.value}", note.span_ms, now, rng)
            self.host = replace(host, backoff=backoff)
            if backoff.level == host.backoff.level:
                return None
            shared = {"host": host.name, "until": to_text(backoff.until), "level": backoff.level, "why": backoff.reason}
            return EventBatch(Kind.HOST_BACKOFF, shared=shared | ({} if note.node is None else {"node": note.node}))
        if note.kind is HostNoteKind.CRAWL_DELAY:
            self.host = replace(host, crawl_delay_ms=note.span_ms)
        elif note.kind is HostNoteKind.FORGIVE and host.backoff.level:
            self.host = replace(host, backoff=Backoff())
            return EventBatch(Kind.HOST_FORGIVEN, shared={"host": host.name, "why": "a person said so"})
        return None

    def refresh_budget(self, defaults: HostLimits, now: Instant) -> EventBatch | None:
        """Update the pool that is divided, from limits and back-off as of now."""
        host = self.host
        backoff = backoff_after_quiet(host.backoff, now)
        event = None
        if backoff != host.backoff:
            self.host = host = replace(host, backoff=backoff)
            if not backoff.level:
                event = EventBatch(Kind.HOST_FORGIVEN, shared={"host": host.name, "why": "it was quiet"})
        budget = effective_budget(host.limits, defaults, host.crawl_delay_ms / 1000, backoff.level)
        is_away = backoff.is_on(now)
        self.shares.pool = NONE if is_away else budget.pool
        self.shares.spacing_ms = budget.spacing_ms
        self.shares.away_until = backoff.until if is_away else 0
        return event

    def divide_budget(self, version_of: Callable[[SessionKey], int], now: Instant, now_mono: float) -> set[SessionKey]:
        """Divide the pool among the holders; returns those whose grant changed."""
        self.shares.release_freed(now_mono)
        changed = self.shares.divide_pool(now_mono, {key: version_of(key) for key in self.shares.holders})
        times = [due_at for due_at in (self.shares.next_due_at(now_mono),) if due_at is not None]
        backoff = self.host.backoff
        if backoff.level:
            wait_ms = backoff.until - now if backoff.is_on(now) else QUIET_MS
            times.append(now_mono + wait_ms / 1000)
        self.due_at = min(times, default=None)
        return changed

    def add_request_counts(self, wants: Mapping[SessionKey, HostWantBody], now: Instant, now_mono: float) -> None:
        """Add what sessions counted since the last time; they report sums since they began."""
        sums = [0, 0, 0]
        for key, want in wants.items():
            before = self._counted_totals.get(key, (0, 0, 0))
            totals = (want.requests, want.refused, want.blocked)
            baseline = (0, 0, 0) if totals[0] < before[0] else before
            for index in range(3):
                sums[index] += max(0, totals[index] - baseline[index])
            self._counted_totals[key] = totals
        host, span_s = self.host, max(0.001, now_mono - self._counted_at)
        self._counted_at = now_mono
        self._recent_counts.append((span_s, sums[0]))
        recent = round(
            1000 * sum(count for _, count in self._recent_counts) / sum(span for span, _ in self._recent_counts)
        )
        if any(sums) or host.recent_milli:
            self.host = replace(
                host,
                requests=host.requests + sums[0],
                refused=host.refused + sums[1],
                blocked=host.blocked + sums[2],
                recent_milli=recent,
                counted_at=now if any(sums) else host.counted_at,
            )

    def collect_changes(self, change: GrantChange, next_id: Callable[[], int]) -> None:
        """Add to `change` what the store does not have yet."""
        if self.host != self._stored_host:
            change.hosts.append(self.host)
            self._stored_host = self.host
        for key in self._stored_shares.keys() - self.shares.holders.keys():
            change.gone.append(self._stored_shares.pop(key).id)
            self._counted_totals.pop(key, None)
        for key, share in self.shares.holders.items():
            stored = self._stored_shares.get(key)
            share_id = next_id() if stored is None else stored.id
            node, session = key
            row = HostShare(
                share_id,
                node,
                session,
                self.host.name,
                share.wanted,
                share.current,
                share.may_use,
                self.shares.spacing_ms,
                share.cut_version,
                self._counted_totals.get(key, (0, 0, 0)),
            )
            if row != stored:
                (change.new_shares if stored is None else change.shares).append(row)
                self._stored_shares[key] = row
