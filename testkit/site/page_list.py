"""The site's own list of its pages, and the rules by which a crawl comes to some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from crawlfleet.demo_shop.site_page import Page
from testkit.site.versioned_catalogue import VersionedCatalogue


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A URL that a link or a sitemap of the site names."""

    path: str
    canonical: str
    """The path itself, or the one of the page that this is another URL of."""
    is_html: bool = True
    is_allowed: bool = True
    """By robots.txt."""
    is_followed: bool = True
    """Reached by a chain of links without `nofollow`, of link, page or header."""
    is_linked: bool = True
    """Not only by a sitemap."""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Rules:
    """What a crawl keeps to. It stays on the host in any case, and out of the traps."""

    robots: bool = True
    nofollow: bool = True
    canonical: bool = True
    """Each page once, under the URL that it calls its own; otherwise every URL of it."""
    files: bool = False
    """What is linked to and is not HTML."""
    sitemaps: bool = False
    """Also what only a sitemap names."""

    def include(self, page: ListedPage) -> bool:
        return (
            page.status == 200
            and (page.is_allowed or not self.robots)
            and (page.is_followed or not self.nofollow)
            and (page.canonical == page.path or not self.canonical)
            and (page.is_html or self.files)
            and (page.is_linked or self.sitemaps)
        )


class Storefront(Protocol):
    """One version of the shop. Pure: the same path gives the same page."""

    catalogue: VersionedCatalogue

    def page(self, path: str, query: str) -> Page | None: ...

    def list_pages(self) -> list[ListedPage]: ...

    def robots(self) -> str:
        """With `ORIGIN` where its address stands."""
        ...
