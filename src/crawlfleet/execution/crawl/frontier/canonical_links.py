"""Pages that name another one as themselves, by `rel=canonical`: that one is visited in their place.

Sites err in this. They name pages that are not there, that redirect back, or that name the first one in turn. So a page
that is named is looked at before it is believed, unless it was read already, and so are the ones that it names. Of a
circle the first by name is kept: whoever reads one of its pages, on whichever node, decides the same.
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
"""At a page, of which nothing is kept. Raises PageFailed or PageSkipped for what is none, redirects included."""


class SamePages:
    def __init__(self, outlook: Outlook, frontier: Frontier, look: Look) -> None:
        self._outlook = outlook
        self._frontier = frontier
        self._look = look
        self._names: dict[bytes, str | None] = {}
        """Of pages that were read: the other one that each of them names, if any."""

    async def end_of(self, link: Link, url: str, facts: PageFacts) -> PageMoved | PageKnown | None:
        """With what the visit of a link that led to a URL ends, if another page is visited in its place."""
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
        # It may wait further from the start than this link is.
        self._frontier.add(target, link.depth)
        return PageKnown(f"{link.url}: names {target} as canonical, which is known")

    def notes(self) -> list[str]:
        """For people."""
        count = self._frontier.left_out[OTHER_NAME]
        return [f"{count} pages were left for those that they name as canonical"] if count else []

    async def _is_right(self, own: str, target: str) -> bool:
        """Whether the names lead to a page that names no other, or to the first of a circle."""
        names = [own]
        at: str | None = target
        while at is not None and at not in names:
            names.append(at)
            if len(names) > MAX_MOVES:
                return False
            try:
                at = await self._named_by(at)
            except (PageFailed, PageSkipped):
                # What cannot be read does not stand for another.
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
            # A page of somebody else is not a name of this one.
            target = None if target == own or not self._outlook.is_followed(target) else target
        if len(self._names) >= REMEMBERED:
            self._names.clear()
        self._names[digest(own)] = target
        return target
