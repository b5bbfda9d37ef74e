"""The site's own list of its pages, and the rules by which a crawl reaches some of them."""

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
    """Path itself, or the path of the page that this is another URL of."""
    is_html: bool = True
    is_allowed: bool = True
    """Whether robots.txt allows it."""
    is_followed: bool = True
    """Whether a chain of links without `nofollow`, of link, page or header, leads to it."""
    is_linked: bool = True
    """Whether a link leads to it, and not only a sitemap."""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a crawl follows. It stays on the host in any case, and out of the traps."""

    robots: bool = True
    nofollow: bool = True
    canonical: bool = True
    """Whether each page is visited once, under its canonical URL; otherwise under every URL of it."""
    files: bool = False
    """Whether linked resources other than HTML are visited."""
    sitemaps: bool = False
    """Whether pages that only a sitemap names are visited too."""

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

    def find_page(self, path: str, query: str) -> Page | None: ...

    def list_pages(self) -> list[ListedPage]: ...

    def robots_text(self) -> str:
        """Return the robots.txt, with `ORIGIN` as the placeholder of its address."""
        ...
