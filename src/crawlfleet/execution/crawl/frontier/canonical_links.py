"""Canonical links: a page that names another one by `rel=canonical` is replaced by that page.

Sites make mistakes in this. They name pages that do not exist, that redirect back, or that name the first one in turn.
So a named page is looked at before the link is trusted, unless it was read already, and so are the pages that it names
in turn. Of a circle the page whose URL sorts first is kept, so that every node decides the same whichever page of it is
read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link, digest
from crawlfleet.execution.crawl.frontier.link_filter import MAX_MOVES, Outlook
from crawlfleet.execution.crawl.frontier.urls import canonical
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped

OTHER_NAME = "names another page as canonical"
REMEMBERED = 100_000

Look = Callable[[str], Awaitable[PageFacts]]
"""Function that fetches and parses a page without storing it.

Raises PageFailed or PageSkipped for a URL that is no page, redirects included.
"""


class SamePages:
    def __init__(self, outlook: Outlook, frontier: Frontier, look: Look) -> None:
        self._outlook = outlook
        self._frontier = frontier
        self._look = look
        self._names: dict[bytes, str | None] = {}
        """Canonical URL that each page names, per digest of the pages that were read; None if it names no other."""

    async def end_of(self, link: Link, url: str, facts: PageFacts) -> PageMoved | PageKnown | None:
        """Return the exception that ends the visit of a link, if another page is visited in its place; else None."""
        own = self._outlook.named_as(url)
        target = self._note(own, facts)
        if target is None or target == link.url or target in link.via or len(link.via) >= MAX_MOVES:
            return None
        if not self._outlook.may_visit(link, target) or not await self._is_right(own, target):
            return None
        is_known = self._frontier.knows(target)
        if not is_known and not self._frontier.add_redirected(link, target):
            return None
        self._frontier.left_out[OTHER_NAME] += 1
        if not is_known:
            return PageMoved(target)
        # The target may wait in the frontier at a greater depth than this link has.
        self._frontier.add(target, link.depth)
        return PageKnown(f"{link.url}: names {target} as canonical, which is known")

    def notes(self) -> list[str]:
        """Return a sentence about replaced pages for people to read."""
        count = self._frontier.left_out[OTHER_NAME]
        return [f"{count} pages were left for those that they name as canonical"] if count else []

    async def _is_right(self, own: str, target: str) -> bool:
        """Return whether the canonical links lead to a page that names no other, or to the first URL of a circle."""
        names = [own]
        at: str | None = target
        while at is not None and at not in names:
            names.append(at)
            if len(names) > MAX_MOVES:
                return False
            try:
                at = await self._named_by(at)
            except (PageFailed, PageSkipped):
                # A page that cannot be read does not replace another.
                return False
        return at is None or min(names[names.index(at) :]) != own

    async def _named_by(self, url: str) -> str | None:
        key = digest(url)
        return self._names[key] if key in self._names else self._note(url, await self._look(url))

    def _note(self, own: str, facts: PageFacts) -> str | None:
        said = facts.links.canonical
        target = None if said is None else canonical(said, facts.base)
        if target is not None:
            target = self._outlook.named_as(target)
            # A page that the rules do not follow, such as one of another site, is not accepted as canonical.
            target = None if target == own or not self._outlook.is_followed(target) else target
        if len(self._names) >= REMEMBERED:
            self._names.clear()
        self._names[digest(own)] = target
        return target
