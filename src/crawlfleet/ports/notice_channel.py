"""Channels carry notices to people: a webhook, a robot of a chat service, mail.

A notice counts as delivered only when the service's own answer confirms it. Chat services put refusals (a wrong
signature, a missing keyword, too many messages) into an answer with status 200, so that the status proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice

SEND_S = 10.0
"""The longest time that one attempt takes in all: name, connection, request and answer."""
ANSWER_CHARS = 300
"""The largest length of the service's words that a delivery keeps."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of one attempt to send a notice. It never contains a secret of the channel."""

    is_delivered: bool
    """Whether the service confirmed the notice."""
    answer: str = ""
    """The service's own words, or what happened in place of an answer; one line."""
    status: int | None = None
    """The status of HTTP or SMTP, where there was an answer."""
    retry_after_s: float | None = None
    """How long the service wants to be left alone before the next attempt."""
    is_permanent: bool = False
    """Whether the same attempt would fail again: a person has to change the channel."""
    is_gone: bool = False
    """Whether the service says that the address no longer exists: the channel should be disabled."""


class NoticeChannel(Protocol):
    """One channel, ready to send."""

    async def send(self, notice: Notice, now: Instant) -> Delivery:
        """Send a notice once and return how that went, within `SEND_S`. Raises nothing but cancellation.

        `now` is the time that signatures carry: services refuse a request whose time is far from theirs.
        """
        ...

    async def close(self) -> None:
        """Release what the channel holds. The channels of this release hold nothing between two notices."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelField:
    """One field of a channel's configuration."""

    name: str
    about: str
    """What the field holds, for people."""
    is_required: bool = False
    is_secret: bool = False
    """Whether the value is write-only: it is never shown or logged."""


@dataclass(frozen=True, slots=True)
class ChannelKind:
    """A kind of channel: its name, its fields and the rate that it may send at."""

    name: str
    """The word in the configuration, such as `dingtalk`."""
    about: str
    fields: Sequence[ChannelField]
    max_notices: int
    """Number of notices in any window of `window_s`: our own bound, below the one at which the service refuses."""
    window_s: int


class ChannelFactory(Protocol):
    """Makes channels of all kinds from their configurations."""

    @property
    def kinds(self) -> Mapping[str, ChannelKind]:
        """The kinds that this installation can use, by name."""
        ...

    def check_fields(self, kind: str, fields: Mapping[str, str]) -> dict[str, str]:
        """Check a configuration and return it in the form to be stored, such as with the token of a pasted URL.

        Raises InvalidInput, with the field named, for an unknown kind or field, a missing or placeholder value, or an
        address that may not be connected to. The message never contains the value of a secret field.
        """
        ...

    def open_channel(self, kind: str, fields: Mapping[str, str], language: Language) -> NoticeChannel:
        """Open a channel by checked fields. Nothing is connected before the first notice."""
        ...
