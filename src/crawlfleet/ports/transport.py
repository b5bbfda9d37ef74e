"""How an agent reaches a master."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.errors import UsageError
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp


class MessageTooLarge(UsageError):
    """The message has more bytes than a master, or a proxy before it, takes: nothing of it was read."""

    code = "too_large"
    http_status = 413

    def __init__(self, detail: str, *, is_from_master: bool = True) -> None:
        super().__init__(detail)
        self.is_from_master = is_from_master
        """False: the answer is no problem document of a master. A proxy may have given it."""


class MasterTransport(Protocol):
    """One call, one answer. A call that fails raises Unavailable: whether the master acted on it is unknown.

    NotAllowed means the secret is no longer good, NotFound that the node is not known, MessageTooLarge that the same
    has to be said in smaller parts.
    """

    async def open(self, up: OpenUp) -> OpenDown: ...

    async def sync(self, up: SyncUp) -> SyncDown: ...
