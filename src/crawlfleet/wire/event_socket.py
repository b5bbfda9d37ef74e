"""Messages of the event WebSocket: JSON objects, one in each text message.

The caller sends `subscribe` and `unsubscribe`; the master answers each with a message that has the same `id`, and sends
events as they happen, with the id of their subscription in `sub`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from crawlfleet.errors import InvalidInput
from crawlfleet.wire.tasks import refusal_from_error

SUBPROTOCOL = "crawlfleet.v1"
MESSAGE_BYTES = 65_536
"""Maximum size of a message that a caller sends."""
SUBSCRIPTIONS = 32
ID_CHARS = 64
KINDS = 50
MAX_NUMBER = (1 << 63) - 1

SubscriptionId = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARS)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Subscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="subscribe", tag_field="op"):
    id: SubscriptionId
    """Name that the caller gives to the subscription; it comes back in `sub` of each event."""
    kinds: Annotated[list[Label], msgspec.Meta(max_length=KINDS)] = []
    """Kinds of events, or how they begin; empty for all."""
    task: Label | None = None
    node: Label | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)] | None = None
    """Number of the last event that the caller has; None to begin now."""


class Unsubscribe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="unsubscribe", tag_field="op"):
    id: SubscriptionId


class Subscribed(msgspec.Struct, frozen=True, tag="subscribed", tag_field="op"):
    id: str
    after: int
    """Number after which the events of the subscription begin."""


class Unsubscribed(msgspec.Struct, frozen=True, tag="unsubscribed", tag_field="op"):
    id: str


class SubscriptionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the event stream has it, with its subscription."""

    sub: str
    number: int
    happened_at: str = msgspec.field(name="at")
    kind: str
    data: Mapping[str, Any]


class Gap(msgspec.Struct, frozen=True, tag="gap", tag_field="op"):
    """Events after the requested number are no longer kept."""

    sub: str
    first: int
    """Number of the first event that is kept."""


class Position(msgspec.Struct, frozen=True, tag="position", tag_field="op"):
    """How far the subscription has come in the log, sent while nothing else is: a subscription that filters much does
    not begin far back when it is resumed."""

    sub: str
    number: int


class SocketError(msgspec.Struct, frozen=True, omit_defaults=True, tag="error", tag_field="op"):
    """A message of the caller was refused; everything else goes on."""

    code: str
    detail: str
    id: str | None = None
    field: str | None = None


CallerMessage = Subscribe | Unsubscribe
_decoder = msgspec.json.Decoder(CallerMessage)


def read_caller_message(text: str | bytes) -> CallerMessage:
    """Decode a message of the caller. Raises InvalidInput with the field."""
    try:
        message: CallerMessage = _decoder.decode(text)
    except msgspec.ValidationError as exc:
        refusal = refusal_from_error(exc, None)
        raise InvalidInput(refusal.detail, field=refusal.field or "message") from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise InvalidInput(f"not valid JSON: {exc}", field="message") from exc
    return message


def find_message_id(text: str | bytes) -> str | None:
    """Return the id of a message that was refused, if it has one, so that the caller can tell which."""
    try:
        sent = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    named = sent.get("id") if isinstance(sent, dict) else None
    return named if isinstance(named, str) and len(named) <= ID_CHARS else None
