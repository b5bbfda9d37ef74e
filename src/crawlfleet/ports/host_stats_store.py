"""Request statistics of target hosts over all nodes: batches come in, are folded, and are kept for a limited time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.host_stats import Batch, Counted, Folded
from crawlfleet.model.instants import Instant


class HostFigureStore(Protocol):
    """Access to the request statistics of target hosts."""

    async def take_figures(self, batches: Sequence[Batch], now: Instant) -> list[bool]:
        """Store batches; returns for each whether it was new.

        A batch whose key (session, number) is not above the last one of its node is ignored.
        """
        ...

    async def fold_figures(self, term: int, now: Instant, limit: int = 1_000) -> list[Folded]:
        """Add up to `limit` received batches to the statistics of each host and of all; returns these batches.

        No more hosts are kept than `model.host_stats` allows, in each minute, each hour and in all.
        """
        ...

    async def drop_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        """Remove expired minutes, hours and hosts, at most `limit` of each; returns the number of removed rows."""
        ...

    async def host_total(self, host: str) -> Counted | None:
        """Return the total of a host since its first request, as far back as it is stored."""
        ...

    async def host_history(self, host: str, span_s: int, since: Instant, until: Instant, limit: int) -> list[Counted]:
        """Return the newest `limit` spans that began from `since` on and before `until`, oldest first, none empty."""
        ...
