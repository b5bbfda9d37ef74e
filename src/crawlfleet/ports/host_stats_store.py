"""What was counted of target hosts, over all nodes: batches come in, are folded, and are kept for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.host_stats import Batch, Counted, Folded
from crawlfleet.model.instants import Instant


class HostFigureStore(Protocol):
    async def take_figures(self, batches: Sequence[Batch], now: Instant) -> list[bool]:
        """Whether each was news. One whose name (session, number) is not above its node's last is passed over."""
        ...

    async def fold_figures(self, term: int, now: Instant, limit: int = 1_000) -> list[Folded]:
        """Adds so many of the batches that came to what is kept, of each host and of all; these batches.

        No more hosts are kept than model.host_figures says, in each minute, each hour and in all.
        """
        ...

    async def drop_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        """Forget minutes, hours and hosts whose time is over, at most so many of each; how many went."""
        ...

    async def host_total(self, host: str) -> Counted | None:
        """All that was counted of it since it was asked first, as far back as it is remembered."""
        ...

    async def host_history(self, host: str, span_s: int, since: Instant, until: Instant, limit: int) -> list[Counted]:
        """Spans that began from `since` on and before `until`: the newest so many, oldest first, none that is empty."""
        ...
