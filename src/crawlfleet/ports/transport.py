"""The protocol by which an agent calls a master."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.errors import UsageError
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp


class MessageTooLarge(UsageError):
    """The message has more bytes than a master, or a proxy before it, accepts: nothing of it was read."""

    code = "too_large"
    http_status = 413

    def __init__(self, detail: str, *, is_from_master: bool = True) -> None:
        super().__init__(detail)
        self.is_from_master = is_from_master
        """Whether a master gave the answer. False: it is no problem document of a master; a proxy may have sent it."""


class MasterTransport(Protocol):
    """A connection to a master: one call, one answer. A failed call raises Unavailable: it may have had its effect.

    NotAllowed means the secret is no longer valid, NotFound that the node is not known, MessageTooLarge that the
    message has to be sent in smaller parts.
    """

    async def open(self, up: OpenUp) -> OpenDown: ...

    async def sync(self, up: SyncUp) -> SyncDown: ...
