"""The store of alerts: what the leader judged, what people configured, and the notices on their way.

The rules of `ports.store` hold here too: one transaction each, answered after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from crawlfleet.model.alerts.alert import AlertChannel, AlertGroup, AlertState, Silence
from crawlfleet.model.ids import ScheduleId
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Notice
from crawlfleet.model.status import Word
from crawlfleet.ports.leadership_store import LeaderRow

KEEP_NOTICES_MS = 30 * 86_400_000
"""Span for which notices that were sent or given up, and silences that are over, are kept."""
RULES_MAX, CHANNELS_MAX, SILENCES_MAX = 200, 50, 1_000

AlertKey = tuple[str, str]


class NoticeStatus(Word):
    """The status of a stored notice."""

    DUE = 0
    """It is to be sent, now or later."""
    DELIVERED = 1
    MERGED = 2
    """A digest carries what it says."""
    ABANDONED = 3
    """It could not be delivered for as long as notices are tried."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """What a person set of a rule; a value that is not in `values` has its default."""

    name: str
    values: Mapping[str, Any]
    changed_at: Instant
    changed_by: str


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notice for one channel, with how its sending goes."""

    id: int
    channel: str
    status: NoticeStatus
    due_at: Instant
    leased_until: Instant | None
    """Instant up to which the master that took it may send it."""
    tries: int
    tried_at: Instant | None
    answer: str
    """The service's words to the last attempt."""
    merged_into: int | None
    """Id of the digest that carries it."""
    notice: Notice


class NewNotice(NamedTuple):
    """A notice to be stored; the text of the id is the one that receivers see."""

    id: int
    channel: str
    notice: Notice


class SendResult(NamedTuple):
    """How one attempt went."""

    id: int
    status: NoticeStatus
    """`DUE` for a notice that is tried again."""
    answer: str
    due_at: Instant
    """Instant of the next attempt, if there is one."""


class ChannelResult(NamedTuple):
    """What an attempt says about its channel."""

    channel: str
    is_delivered: bool
    answer: str
    wait_until: Instant | None = None
    """Instant before which nothing more is sent to the channel, as the service wants it."""
    disabled_why: str = ""
    """Why the channel is disabled; empty to leave it enabled."""


@dataclass(frozen=True, slots=True)
class AlertBook:
    """All that a pass over the alerts starts from."""

    states: Mapping[AlertKey, AlertState] = field(default_factory=dict)
    groups: Mapping[AlertKey, AlertGroup] = field(default_factory=dict)
    rules: Sequence[RuleChange] = ()
    silences: Sequence[Silence] = ()
    """Silences that are not over."""
    channels: Sequence[AlertChannel] = ()


@dataclass(frozen=True, slots=True)
class AlertChanges:
    """What a pass changed: all of it is written in one transaction."""

    states: Sequence[AlertState] = ()
    forgotten: Sequence[AlertKey] = ()
    groups: Sequence[AlertGroup] = ()
    forgotten_groups: Sequence[AlertKey] = ()
    notices: Sequence[NewNotice] = ()


class AlertStore(Protocol):
    """Access to the states of alerts, and to what people configure."""

    async def load_alerts(self, now: Instant) -> AlertBook: ...

    async def record_alerts(self, changes: AlertChanges, now: Instant, term: int) -> None:
        """Write what a pass of the leader changed, with the notices that it makes."""
        ...

    async def record_unled_alerts(self, changes: AlertChanges, now: Instant, silent: LeaderRow) -> bool:
        """Write the same for a master that does not lead; return False, with nothing written, when the row of the
        leader is no longer the one that was silent, or another master wrote the first of the states already."""
        ...

    async def acknowledge_alert(self, rule: str, scope: str, by: str, why: str, now: Instant) -> AlertState:
        """Acknowledge an alert that fires. Raises NotFound, or Conflict when it does not fire."""
        ...

    async def put_rule_change(self, change: RuleChange) -> None:
        """Store the values of a rule in place of earlier ones. Raises OverLimit beyond `RULES_MAX`."""
        ...

    async def drop_rule_change(self, name: str) -> bool:
        """Remove what was set of a rule; return whether there was something."""
        ...

    async def put_channel(self, channel: AlertChannel) -> None:
        """Store a channel in place of an earlier one; what waits for it is due at once. Raises OverLimit beyond
        `CHANNELS_MAX`."""
        ...

    async def drop_channel(self, name: str) -> bool:
        """Remove a channel, with the notices that wait for it."""
        ...

    async def add_silence(self, silence: Silence) -> None:
        """Raises OverLimit beyond `SILENCES_MAX`."""
        ...

    async def end_silence(self, silence_id: int, now: Instant) -> Silence:
        """End a silence now, if it is not over. Raises NotFound."""
        ...

    async def list_silences(self, limit: int) -> list[Silence]:
        """Return silences, newest first, also those that are over."""
        ...


class NoticeStore(Protocol):
    """Access to the notices: they are taken by lease, sent, and marked.

    A master that dies in between leaves a lease that ends: the notice is sent again, with the same id.
    """

    async def lease_notices(self, now: Instant, lease_ms: int, limit: int) -> list[StoredNotice]:
        """Take due notices of enabled channels, in the order of their ids, until `now + lease_ms`."""
        ...

    async def release_notices(self, notice_ids: Sequence[int], due_at: Instant) -> None:
        """Give back notices that were not tried; they are due at `due_at`."""
        ...

    async def record_sending(
        self, results: Sequence[SendResult], channels: Sequence[ChannelResult], now: Instant
    ) -> None:
        """Mark what was tried, and note how the channels are. A notice that is no longer due is left as it is."""
        ...

    async def merge_into_digest(self, digest: NewNotice, merged: Sequence[int], lease_ms: int, now: Instant) -> bool:
        """Store a digest in place of notices, leased as they are; return False when one of them is no longer due."""
        ...

    async def sent_instants(self, channel: str, since: Instant, limit: int) -> list[Instant]:
        """Return when notices of a channel were tried, oldest first."""
        ...

    async def next_notice_at(self) -> Instant | None:
        """Return the earliest instant at which a notice of an enabled channel is due; leases are no matter."""
        ...

    async def notice_page(
        self, limit: int, before: int | None = None, channel: str | None = None, status: NoticeStatus | None = None
    ) -> list[StoredNotice]:
        """Return a page of notices, newest first; `before` is the last id seen."""
        ...

    async def drop_old_notices(self, term: int, before: Instant, limit: int) -> int:
        """Remove notices that are no longer due and silences that are over, made or ended before an instant."""
        ...


# -- What rules measure, beside the figures: each read is bounded, however large the installation is


class HostBlocks(NamedTuple):
    """How a host treated requests in a span of time."""

    host: str
    requests: int = 0
    blocked: int = 0
    level: int = 0
    """Level of its back-off; 0 when there is none."""
    reason: str = ""
    """Reason of the back-off."""


class LeftOutTick(NamedTuple):
    """A tick of a schedule that submitted no task, or that is late."""

    schedule: ScheduleId
    name: str
    run_at: Instant
    reason: str


class ScheduleRuns(NamedTuple):
    """The completed runs of a schedule."""

    schedule: ScheduleId
    name: str
    metrics: Sequence[bytes | None]
    """Metrics of the runs, newest first."""


class AlertSampleStore(Protocol):
    """Bounded reads for alert rules."""

    async def blocked_hosts(self, since: Instant, now: Instant, level: int, limit: int) -> list[HostBlocks]:
        """Return the hosts with requests since an instant, and those in back-off of at least this level."""
        ...

    async def left_out_ticks(self, since: Instant, late_before: Instant, limit: int) -> list[LeftOutTick]:
        """Return ticks that were missed or refused since an instant, and those due before another and not fired.

        A tick that was skipped by the overlap policy of its schedule is not among them.
        """
        ...

    async def recent_causes(self, limit: int) -> list[tuple[str, int]]:
        """Return the causes of the newest dead letters, the most frequent first."""
        ...

    async def schedule_runs(self, after: ScheduleId, schedules: int, runs: int) -> list[ScheduleRuns]:
        """Return the newest completed runs of the next schedules in the order of their ids."""
        ...

    async def runs_of_schedules(self, schedules: Sequence[ScheduleId], runs: int) -> list[ScheduleRuns]:
        """Return the same of these schedules, as far as they exist."""
        ...
