"""Alerts: rules, what they measured, the state of each alert, groups, silences and channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Severity
from crawlfleet.model.status import Word

INSTALLATION_SCOPE = "*"
"""The scope of an alert about the whole installation."""


class AlertStatus(Word):
    """The status of an alert."""

    OK = 0
    PENDING = 1
    """The threshold is crossed, and not yet for long enough."""
    FIRING = 2
    RECOVERING = 3
    """The value is good again, and not yet for long enough: the alert still counts as firing."""

    @property
    def is_active(self) -> bool:
        return self in (AlertStatus.FIRING, AlertStatus.RECOVERING)


class Announced(Word):
    """What the last notice said about an alert."""

    NOTHING = 0
    """No notice, or that it recovered."""
    FIRING = 1
    FLAPPING = 2


@dataclass(frozen=True, slots=True)
class AlertHours:
    """The hours in which a rule may send notices, as a person's clock shows them."""

    begin_minute: int
    """First minute of the day; after `end_minute` when the hours pass midnight."""
    end_minute: int
    """Minute of the day before which the hours end; equal to `begin_minute` for the whole day."""
    days: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    """Days of the week on which the hours begin: 1 is Monday."""
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule, as it is applied."""

    name: str
    kind: str
    """Name of what is measured; a built-in rule has the name of its kind."""
    scope: str
    """`*`, a kind of scopes such as `project` (an alert for each), or a single scope such as `project:shop`."""
    threshold: float
    """Value at which the rule fires."""
    clear: float
    """Value from which it may recover."""
    for_s: int
    """Span for which the threshold has to be crossed before the rule fires."""
    keep_s: int
    """Span for which the value has to be good before the rule recovers."""
    severity: Severity
    channels: tuple[str, ...] = ()
    """Names of the channels that receive its notices; empty for all."""
    hours: AlertHours | None = None
    """Hours of its notices; None for all hours."""
    least_samples: int = 0
    """Number of observations below which a value is ignored."""
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class AlertSample:
    """What was measured for one scope."""

    scope: str
    value: float | None
    """The value, in the unit of the rule; None when there is none to judge."""
    count: int = 0
    """Number of observations behind the value."""
    why: str = ""
    """Sentence that gives the cause."""
    parent: str = ""
    """Scope that the scope belongs to, such as the cluster of a node."""
    mute: str = ""
    """Reason why no notice is sent of it at present, such as a drain."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """The state of one alert: a rule applied to a scope."""

    rule: str
    scope: str
    status: AlertStatus = AlertStatus.OK
    since_at: Instant = 0
    """Instant at which the status began."""
    fired_at: Instant | None = None
    """Instant at which it fired last; None before the first time."""
    value: float | None = None
    measured_at: Instant = 0
    """Instant of the value; it may be older than the latest measurement, by half a minute."""
    why: str = ""
    parent: str = ""
    mute: str = ""
    changes: tuple[Instant, ...] = ()
    """Instants of the latest changes between firing and recovered."""
    flapping_at: Instant | None = None
    """Instant from which it counts as flapping; None unless it does."""
    announced: Announced = Announced.NOTHING
    announced_at: Instant | None = None
    """Instant of the last notice about it."""
    reminders: int = 0
    """Number of reminders sent since it fired."""
    term: int = 0
    """Term of the leader that judged it last."""
    acknowledged_at: Instant | None = None
    """Instant at which a person acknowledged it; None unless it is active and acknowledged."""
    acknowledged_by: str = ""
    acknowledged_why: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.scope


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts of one rule and one kind of scope: they share their messages."""

    rule: str
    scope_kind: str
    due_at: Instant | None = None
    """Instant from which the next message may be made; None when there is nothing to send."""
    sent_at: Instant | None = None
    """Instant of the last message."""

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.scope_kind


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a person wants no notices of some alerts."""

    id: int
    matchers: Mapping[str, str]
    """Patterns by field (`rule`, `scope`, `severity`, `parent`); an alert that all of them match is silenced."""
    starts_at: Instant
    until_at: Instant
    why: str
    created_by: str
    created_at: Instant

    def is_in_force(self, now: Instant) -> bool:
        return self.starts_at <= now < self.until_at


@dataclass(frozen=True, slots=True)
class AlertChannel:
    """A channel as it is stored, with its secrets."""

    name: str
    kind: str
    fields: Mapping[str, str] = field(repr=False)
    """Fields of the configuration, in the form that the factory of channels checked."""
    language: Language = Language.ENGLISH
    is_enabled: bool = True
    disabled_why: str = ""
    """Why the installation disabled it by itself: the service says that the address is gone."""
    failures: int = 0
    """Number of attempts that failed since the last one that was delivered."""
    failing_since: Instant | None = None
    last_answer: str = ""
    """The service's words to the last attempt."""
    last_sent_at: Instant | None = None
    """Instant of the last delivered notice."""
    changed_at: Instant = 0
    changed_by: str = ""


def scope_kind(scope: str) -> str:
    """Return the kind of a scope: `node` of `node:node-7c`, and `*` of `*`."""
    return scope.partition(":")[0]
