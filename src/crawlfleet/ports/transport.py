"""How an agent reaches a master."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp


class MasterTransport(Protocol):
    """One call, one answer. A call that fails raises Unavailable: whether the master acted on it is unknown.

    NotAllowed means the secret is no longer good, NotFound that the node is not known.
    """

    async def open(self, up: OpenUp) -> OpenDown: ...

    async def sync(self, up: SyncUp) -> SyncDown: ...
