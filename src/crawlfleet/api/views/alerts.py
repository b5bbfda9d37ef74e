"""How alerts, their rules, channels, silences and notices are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from crawlfleet.api.views.tasks import Time, instant_text
from crawlfleet.control.alerts.alert_reader import AlertReport
from crawlfleet.control.alerts.alert_rules import RuleReport
from crawlfleet.control.alerts.rule_preview import RulePreview
from crawlfleet.model.alerts.alert import AlertChannel, AlertHours, AlertState, Silence
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.alert_store import NoticeStatus, StoredNotice
from crawlfleet.ports.notice_channel import ChannelKind, Delivery
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

SeverityWord = Literal["info", "warning", "critical"]
AlertWord = Literal["ok", "pending", "firing", "recovering"]
UnitWord = Literal["ratio", "seconds", "count", "days", "state"]
NoticeWord = Literal["due", "delivered", "merged", "abandoned"]
LanguageWord = Literal["en", "zh"]


class AcknowledgementView(msgspec.Struct, frozen=True):
    by: str
    acknowledged_at: Time
    why: str


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that is not ok."""

    rule: str
    scope: str
    """What it is about: `*` for the installation, or a kind and a name, such as `node:node-0123456789abcdef`."""
    status: AlertWord
    severity: SeverityWord
    since: Time
    """When the status began."""
    fired_at: Time | None
    value: float | None
    """In the unit of the rule; it may be half a minute old."""
    threshold: float
    why: str
    is_flapping: bool
    muted_why: str | None
    """Why no notice of it is sent at present; null when it may be."""
    acknowledgement: AcknowledgementView | None
    notified_at: Time | None
    """When the last notice of it was made."""


class AlertList(msgspec.Struct, frozen=True):
    alerts: list[AlertView]
    firing: int
    """How many fire, recovering ones included."""


class AcknowledgedView(msgspec.Struct, frozen=True):
    rule: str
    scope: str
    acknowledgement: AcknowledgementView


class HoursView(msgspec.Struct, frozen=True, rename={"begin": "from"}):
    begin: str
    until: str
    days: list[int]
    """1 is Monday."""
    time_zone: str


class RuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as it is applied."""

    name: str
    kind: str
    about: str
    scope: str
    unit: UnitWord
    threshold: float
    clear: float
    """The value from which it may recover."""
    fires_below: bool
    """Whether it fires below the threshold instead of at or above it."""
    for_s: int
    keep_s: int
    """How long the value has to be good before it recovers."""
    least_samples: int
    severity: SeverityWord
    channels: list[str]
    """Empty: all."""
    hours: HoursView | None
    """When notices of it may be sent; null: always."""
    is_enabled: bool
    is_built_in: bool
    has_preview: bool
    changed_by: str | None
    """null: it has its defaults."""
    changed_at: Time | None


class RuleList(msgspec.Struct, frozen=True):
    rules: list[RuleView]


class PreviewedAlertView(msgspec.Struct, frozen=True):
    fired_at: Time
    recovered_at: Time | None
    """null: it fires at the end."""
    peak: float


class PreviewView(msgspec.Struct, frozen=True):
    """When a rule would have fired over the stored history."""

    scope: str
    since: Time
    until: Time
    alerts: list[PreviewedAlertView]
    points: int
    """Measurements that the history has."""


class ChannelView(msgspec.Struct, frozen=True, kw_only=True):
    """A channel; secrets are shown as stars."""

    name: str
    kind: str
    fields: Mapping[str, str]
    language: LanguageWord
    is_enabled: bool
    disabled_why: str | None
    """Why the installation disabled it by itself."""
    failures: int
    """Attempts that failed since the last one that was delivered."""
    failing_since: Time | None
    last_answer: str
    last_sent_at: Time | None
    changed_by: str
    changed_at: Time


class ChannelFieldView(msgspec.Struct, frozen=True):
    name: str
    about: str
    is_required: bool
    is_secret: bool


class ChannelKindView(msgspec.Struct, frozen=True):
    name: str
    about: str
    fields: list[ChannelFieldView]


class ChannelList(msgspec.Struct, frozen=True):
    channels: list[ChannelView]
    kinds: list[ChannelKindView]


class DeliveryView(msgspec.Struct, frozen=True):
    """How a test went, in the service's own words."""

    is_delivered: bool
    answer: str
    status: int | None


class SilenceView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    matchers: Mapping[str, str]
    starts_at: Time
    until_at: Time
    why: str
    created_by: str
    created_at: Time
    is_in_force: bool


class SilenceList(msgspec.Struct, frozen=True):
    silences: list[SilenceView]


class NoticeView(msgspec.Struct, frozen=True, kw_only=True):
    """A notice and how its sending goes."""

    id: str
    channel: str
    status: NoticeWord
    state: Literal["firing", "recovered", "reminder", "flapping", "digest", "test"]
    rule: str
    scope: str
    severity: SeverityWord
    alerts: int
    """How many alerts it is about."""
    why: str
    created_at: Time
    tries: int
    tried_at: Time | None
    due_at: Time | None
    """When it is tried next; null when it is not."""
    answer: str
    digest_id: str | None
    """The notice that carries what this one says."""


class NoticePage(msgspec.Struct, frozen=True):
    notices: list[NoticeView]
    next_cursor: str | None


def alert_view(report: AlertReport) -> AlertView:
    state = report.state
    return AlertView(
        rule=state.rule,
        scope=state.scope,
        status=cast("AlertWord", state.status.word),
        severity=report.rule.severity.value,
        since=to_text(state.since_at),
        fired_at=instant_text(state.fired_at) if state.status.is_active else None,
        value=state.value,
        threshold=report.rule.threshold,
        why=state.why,
        is_flapping=state.flapping_at is not None,
        muted_why=report.muted_why or None,
        acknowledgement=acknowledgement_view(state),
        notified_at=instant_text(state.announced_at),
    )


def acknowledgement_view(state: AlertState) -> AcknowledgementView | None:
    if state.acknowledged_at is None:
        return None
    return AcknowledgementView(state.acknowledged_by, to_text(state.acknowledged_at), state.acknowledged_why)


def rule_view(report: RuleReport) -> RuleView:
    rule, change = report.rule, report.change
    kind = RULE_KINDS[rule.kind]
    return RuleView(
        name=rule.name,
        kind=rule.kind,
        about=kind.about,
        scope=rule.scope,
        unit=kind.unit.value,
        threshold=rule.threshold,
        clear=rule.clear,
        fires_below=kind.is_low_bad,
        for_s=rule.for_s,
        keep_s=rule.keep_s,
        least_samples=rule.least_samples,
        severity=rule.severity.value,
        channels=list(rule.channels),
        hours=None if rule.hours is None else _hours_view(rule.hours),
        is_enabled=rule.is_enabled,
        is_built_in=rule.name in RULE_KINDS,
        has_preview=kind.has_history,
        changed_by=None if change is None else change.changed_by,
        changed_at=None if change is None else to_text(change.changed_at),
    )


def preview_view(preview: RulePreview) -> PreviewView:
    alerts = [
        PreviewedAlertView(to_text(each.fired_at), instant_text(each.recovered_at), each.peak)
        for each in preview.alerts
    ]
    return PreviewView(preview.scope, to_text(preview.since), to_text(preview.until), alerts, preview.points)


def channel_view(channel: AlertChannel) -> ChannelView:
    return ChannelView(
        name=channel.name,
        kind=channel.kind,
        fields=channel.fields,
        language=channel.language.value,
        is_enabled=channel.is_enabled,
        disabled_why=channel.disabled_why or None,
        failures=channel.failures,
        failing_since=instant_text(channel.failing_since),
        last_answer=channel.last_answer,
        last_sent_at=instant_text(channel.last_sent_at),
        changed_by=channel.changed_by,
        changed_at=to_text(channel.changed_at),
    )


def channel_kind_view(kind: ChannelKind) -> ChannelKindView:
    fields = [ChannelFieldView(each.name, each.about, each.is_required, each.is_secret) for each in kind.fields]
    return ChannelKindView(kind.name, kind.about, fields)


def delivery_view(delivery: Delivery) -> DeliveryView:
    return DeliveryView(delivery.is_delivered, delivery.answer, delivery.status)


def silence_view(silence: Silence, now: Instant) -> SilenceView:
    return SilenceView(
        id=silence_text(silence.id),
        matchers=silence.matchers,
        starts_at=to_text(silence.starts_at),
        until_at=to_text(silence.until_at),
        why=silence.why,
        created_by=silence.created_by,
        created_at=to_text(silence.created_at),
        is_in_force=silence.is_in_force(now),
    )


def notice_view(stored: StoredNotice) -> NoticeView:
    notice = stored.notice
    return NoticeView(
        id=notice_text(stored.id),
        channel=stored.channel,
        status=cast("NoticeWord", stored.status.word),
        state=notice.state.value,
        rule=notice.rule,
        scope=notice.scope,
        severity=notice.severity.value,
        alerts=notice.count,
        why=notice.why,
        created_at=to_text(notice.created_at),
        tries=stored.tries,
        tried_at=instant_text(stored.tried_at),
        due_at=to_text(stored.due_at) if stored.status is NoticeStatus.DUE else None,
        answer=stored.answer,
        digest_id=None if stored.merged_into is None else notice_text(stored.merged_into),
    )


def silence_text(silence_id: int) -> str:
    return f"silence-{silence_id:016x}"


def notice_text(notice_id: int) -> str:
    return f"notice-{notice_id:016x}"


def _hours_view(hours: AlertHours) -> HoursView:
    # The same minute twice is the whole day, which ends with its 24th hour.
    end = hours.end_minute or 24 * 60
    return HoursView(_clock_text(hours.begin_minute), _clock_text(end), list(hours.days), hours.time_zone)


def _clock_text(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
