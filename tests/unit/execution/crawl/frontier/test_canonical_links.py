"""Pages that name others as canonical: exactly one of each is kept, whoever reads them and in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier.canonical_links import OTHER_CANONICAL, CanonicalLinks
from crawlfleet.execution.crawl.frontier.follow_config import compile_follow_config, find_follow_problems
from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved

START = "http://shop.test/"
Names = Mapping[str, str | None]
"""What each page names; pages that are not in it are not there."""


def facts_of(url: str, names: Names) -> PageFacts:
    return PageFacts(links=PageLinks(canonical=names[url]), base=url)


class Reader:
    """One member of a crawl, or all of it."""

    def __init__(self, names: Names, *, is_shared: bool = False, **follow: object) -> None:
        self._names = names
        self.looked: list[str] = []
        self.frontier: Frontier = SharedFrontier() if is_shared else Frontier()
        following = compile_follow_config({"follow": {"obey_canonical": True, **follow}}, [START], 5)
        self.same = CanonicalLinks(LinkFilter(following, self.frontier, depth=5), self.frontier, self._look)

    async def read(self, url: str, **more: object) -> PageMoved | PageKnown | None:
        self.frontier.claim_url(url)
        return await self.same.redirect_to_canonical(Link(url, 1, **more), url, facts_of(url, self._names))  # type: ignore[arg-type]

    async def _look(self, url: str) -> PageFacts:
        self.looked.append(url)
        if url not in self._names:
            raise PageFailed("http", f"{url} answers 404", permanent=True, status=404)
        return facts_of(url, self._names)


def url(name: str) -> str:
    return f"{START}{name}"


async def test_a_page_that_names_another_is_left_for_it() -> None:
    reader = Reader({url("p?a"): "/p", url("p?b"): "/p", url("p"): "/p#top"})
    moved = await reader.read(url("p?a"))
    assert isinstance(moved, PageMoved) and str(moved) == url("p")
    taken = reader.frontier.pop_link(lambda _host: True)
    assert taken is not None and (taken.url, taken.depth, taken.via) == (url("p"), 1, (url("p?a"),))
    assert isinstance(await reader.read(url("p?b")), PageKnown)
    assert await reader.read(url("p")) is None
    # It was looked at before it was believed, once.
    assert reader.looked == [url("p")]
    assert reader.frontier.left_out == {OTHER_CANONICAL: 2}
    assert reader.same.describe_replacements() == ["2 pages were left for those that they name as canonical"]


async def test_what_was_read_is_not_looked_at() -> None:
    reader = Reader({url("p"): None, url("p?a"): "/p"})
    assert await reader.read(url("p")) is None
    assert isinstance(await reader.read(url("p?a")), PageKnown)
    assert reader.looked == []


async def test_names_that_cannot_be_right_are_passed_over() -> None:
    names: Names = {
        url("1"): "http://other.test/1",
        url("2"): "/private/2",
        url("3"): "/missing",
        url("4"): "mailto:x",
        url("5"): None,
        url("6"): "/6",
        url("7"): "/7?utm_source=a",
        url("8"): "/manual.pdf",
    }
    reader = Reader(names, deny=["/private/"])
    assert [await reader.read(page) for page in names] == [None] * len(names)
    assert reader.looked == [url("missing")]
    assert len(reader.frontier) == 0 and OTHER_CANONICAL not in reader.frontier.left_out


async def test_a_page_is_kept_that_its_name_redirected_to() -> None:
    reader = Reader({url("x/"): "/x", url("x"): None})
    assert await reader.read(url("x/"), via=(url("x"),)) is None


async def test_an_endless_chain_ends() -> None:
    names = {url(str(n)): f"/{n + 1}" for n in range(100)}
    reader = Reader(names)
    assert await reader.read(url("0")) is None
    assert len(reader.looked) < 20


def test_the_parameter_is_checked() -> None:
    assert find_follow_problems({"follow": {"obey_canonical": True}}) == []
    ((field, detail),) = find_follow_problems({"follow": {"obey_canonical": "yes"}})
    assert field == "follow.obey_canonical" and "boolean" in detail


NAMES = st.integers(1, 8).flatmap(
    lambda count: st.lists(st.none() | st.integers(0, count - 1), min_size=count, max_size=count)
)


def kept_of(named: list[int | None]) -> set[int]:
    """Those that name no other, and of each circle the first."""
    kept = {page for page, other in enumerate(named) if other is None or other == page}
    for page in range(len(named)):
        seen: list[int] = []
        at: int | None = page
        while at is not None and at not in seen and at not in kept:
            seen.append(at)
            at = named[at]
        if at in seen:
            kept.add(min(seen[seen.index(at) :]))
    return kept


@given(NAMES, st.data(), st.integers(1, 3))
def test_one_of_each_is_kept_in_any_order_by_any_number_of_members(
    named: list[int | None], data: st.DataObject, members: int
) -> None:
    order = data.draw(st.permutations(range(len(named))))
    whose = data.draw(st.lists(st.integers(0, members - 1), min_size=len(named), max_size=len(named)))
    names = {url(str(page)): None if other is None else f"/{other}" for page, other in enumerate(named)}

    async def kept() -> set[int]:
        readers = [Reader(names, is_shared=members > 1) for _ in range(members)]
        return {page for page in order if await readers[whose[page]].read(url(str(page))) is None}

    assert asyncio.run(kept()) == kept_of(named)
