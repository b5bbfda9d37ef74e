"""A page as the site keeps it, and what the site knows of it: the entries of its own list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from crawlfleet.shop.catalogue import Catalogue
from crawlfleet.shop.http import HTML

ORIGIN, HOST = "%%ORIGIN%%", "%%HOST%%"
"""In a body: replaced by the scheme and host, or by the host, that the page was asked from."""


class Page(NamedTuple):
    body: bytes
    content_type: str = HTML
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    is_gzipped: bool = False
    """A file of its own that is a gzip, not an encoding on the way."""


@dataclass(frozen=True, slots=True)
class Known:
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

    def include(self, known: Known) -> bool:
        return (
            known.status == 200
            and (known.is_allowed or not self.robots)
            and (known.is_followed or not self.nofollow)
            and (known.canonical == known.path or not self.canonical)
            and (known.is_html or self.files)
            and (known.is_linked or self.sitemaps)
        )


class Storefront(Protocol):
    """One version of the shop. Pure: the same path gives the same page."""

    catalogue: Catalogue

    def page(self, path: str, query: str) -> Page | None: ...

    def known(self) -> list[Known]: ...

    def robots(self) -> str:
        """With `ORIGIN` where its address stands."""
        ...
