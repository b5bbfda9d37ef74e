"""Page notes of a member of a crawl over many nodes: they belong to its URL batches, and count with them.

No member sees every page. Which pages of the earlier crawl were not found is determined when all others were visited,
by the member that leases the closing URL, from the reports of all members.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from crawlfleet.execution.crawl.frontier.frontier import Link
from crawlfleet.execution.crawl.record.page_notes import GONE, MARK, Earlier, PageBook, Was
from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier

OWN = "own"
"""Value in place of an earlier crawl's id, for the crawl that the member takes part in."""
_ITEMS = msgspec.json.Decoder(dict[str, Any])


class ChunkBook(PageBook):
    def __init__(
        self,
        frontier: SharedFrontier,
        notes_of: Callable[[str], AsyncIterator[bytes]] | None,
        earlier: Earlier | None = None,
        *,
        keeps_unchanged: bool = False,
    ) -> None:
        super().__init__(_nowhere, earlier, keeps_unchanged=keeps_unchanged)
        self._frontier = frontier
        self._notes_of = notes_of

    def known(self) -> list[tuple[str, int]]:
        """Return no pages: links come first, as only then every page is known by its shortest way."""
        return []

    async def put(self, link: Link | None, note: Mapping[str, Any]) -> None:
        if link is not None:
            self._frontier.chunk(link.batch_number).note(note)

    def put_failed(self, link: Link, note: Mapping[str, Any]) -> None:
        self._frontier.chunk(link.batch_number).note(note)

    async def unmet(self) -> list[tuple[str, Was]]:
        """Return the pages of the earlier crawl of which no member has noted anything."""
        if self._earlier is None or self._notes_of is None:
            return []
        left = dict(self._earlier.pages)
        async for lines in self._notes_of(OWN):
            for note in _ITEMS.decode_lines(lines):
                left.pop(note.get(MARK, ""), None)
        return sorted(left.items())


def gone(url: str) -> dict[str, Any]:
    return {MARK: url, "change": GONE}


async def _nowhere(_item: Mapping[str, Any]) -> None:
    raise AssertionError("notes of a member go with their chunk")
