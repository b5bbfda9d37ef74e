"""Notices: the messages that alerts send to people through channels.

A notice holds facts; its text is written by the channel, in the language of the channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from crawlfleet.model.instants import Instant

NOTICE_ITEMS = 50
"""The largest number of items that one notice carries; `Notice.count` says how many there are in all."""
WHY_CHARS = 1_000
"""The largest length of the sentence that says why."""


class Severity(StrEnum):
    """How urgent an alert is."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class NoticeState(StrEnum):
    """What a notice says about its alert."""

    FIRING = "firing"
    RECOVERED = "recovered"
    REMINDER = "reminder"
    FLAPPING = "flapping"
    DIGEST = "digest"
    """Several notices in one, because the channel's bound was reached."""
    TEST = "test"
    """A person tries out the channel."""


class Language(StrEnum):
    """The language of a channel's texts."""

    ENGLISH = "en"
    CHINESE = "zh"


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """One alert of a notice that tells of several."""

    rule: str
    """Name of the rule, such as `node_down`."""
    state: NoticeState
    severity: Severity
    scope: str
    """What the alert is about: `*` for the installation, or a kind and a name, such as `node:node-7c`."""
    value: float | None = None
    """The measured value, in the unit of the rule (ratio 0-1, seconds, bytes or a count)."""
    threshold: float | None = None
    """The value from which the rule fires, in the same unit."""
    since: Instant | None = None
    """When the alert began to fire."""
    why: str = ""
    """One English sentence that gives the cause."""
    kind: str = ""
    """What the rule measures, where that is not the name of the rule."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message for one channel. It is sent at least once; a copy has the same id."""

    id: str
    """Unique and the same in every copy; letters, digits, `-` and `_` only, because signatures and mails carry it."""
    state: NoticeState
    rule: str
    """Name of the rule; `test` for a test, and `digest` for a digest of several rules."""
    severity: Severity
    scope: str
    """What the alert is about, as in `NoticeItem`; of a group, what its alerts have in common."""
    created_at: Instant
    """When the notice was made."""
    value: float | None = None
    threshold: float | None = None
    since: Instant | None = None
    """When the alert began to fire."""
    why: str = ""
    """One English sentence that gives the cause."""
    link: str = ""
    """Where the alert can be looked at; empty without `public_url`."""
    installation: str = ""
    """Name of the installation, so that the messages of two can be told apart."""
    reminder: int = 0
    """The number of this reminder, from 1; 0 for a notice that is no reminder."""
    count: int = 1
    """Number of alerts that the notice tells of; at least the number of items."""
    items: tuple[NoticeItem, ...] = ()
    """The alerts of a group or a digest, most urgent first; empty for a single alert."""
    kind: str = ""
    """What the rule measures, where that is not the name of the rule."""
