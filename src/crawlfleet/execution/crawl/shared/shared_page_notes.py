"""Page notes of a member of a crawl over many nodes: they belong to its URL batches, and count with them.

No member sees every page. Which pages of the earlier crawl were not found is determined when all others were visited,
by the member that leases the closing URL, from the reports of all members.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from crawlfleet.execution.crawl.frontier.frontier import Link
from crawlfleet.execution.crawl.record.page_notes import GONE, MARK, EarlierNote, EarlierNotes, PageNotes
from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier

OWN = "own"
"""Value in place of an earlier crawl's id, for the crawl that the member takes part in."""
_ITEMS = msgspec.json.Decoder(dict[str, Any])


class SharedPageNotes(PageNotes):
    def __init__(
        self,
        frontier: SharedFrontier,
        load_notes: Callable[[str], AsyncIterator[bytes]] | None,
        earlier: EarlierNotes | None = None,
        *,
        keeps_unchanged: bool = False,
    ) -> None:
        super().__init__(_refuse_note, earlier, keeps_unchanged=keeps_unchanged)
        self._frontier = frontier
        self._load_notes = load_notes

    def earlier_pages(self) -> list[tuple[str, int]]:
        """Return no pages: links come first, as only then every page is known by its shortest way."""
        return []

    async def write_note(self, link: Link | None, note: Mapping[str, Any]) -> None:
        if link is not None:
            self._frontier.get_batch(link.batch_number).add_note(note)

    def write_failed_note(self, link: Link, note: Mapping[str, Any]) -> None:
        self._frontier.get_batch(link.batch_number).add_note(note)

    async def find_missing_pages(self) -> list[tuple[str, EarlierNote]]:
        """Return the pages of the earlier crawl of which no member has noted anything."""
        if self._earlier is None or self._load_notes is None:
            return []
        missing = dict(self._earlier.pages)
        async for lines in self._load_notes(OWN):
            for note in _ITEMS.decode_lines(lines):
                missing.pop(note.get(MARK, ""), None)
        return sorted(missing.items())


def make_gone_note(url: str) -> dict[str, Any]:
    return {MARK: url, "change": GONE}


async def _refuse_note(_item: Mapping[str, Any]) -> None:
    raise AssertionError("notes of a member go with their chunk")
