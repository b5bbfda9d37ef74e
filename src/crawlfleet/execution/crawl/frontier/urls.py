"""URLs are parsed by the WHATWG standard, as browsers and so sites do: one spelling per address.

A canonical URL is http or https, has no fragment and no credentials, and is what two spellings of one page share.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

import ada_url

URL_CHARS = 4_096
PAGE_LINKS = 50_000
"""Limit on links of one page, as on entries of one sitemap; the links after them are not followed."""
_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port that a canonical URL points to."""

    scheme: str
    host: str
    port: int

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def canonical_url(href: str, base: str | None = None) -> str | None:
    """Return the canonical URL of a link; None for what is no address of a page: another scheme, no host, not a URL."""
    try:
        url = ada_url.normalize_url(href) if base is None else ada_url.join_url(base, href)
    except ValueError:
        return None
    if not url.startswith(("http://", "https://")):
        return None
    url = url.partition("#")[0]
    authority = url.split("/", 3)[2]
    if "@" in authority:
        url = url.replace(authority, authority.rpartition("@")[2], 1)
    return url if len(url) <= URL_CHARS else None


def url_host(url: str) -> str:
    """Return host and port of a canonical URL without the default port: what "the same host" compares."""
    return url.split("/", 3)[2]


def origin_prefix(url: str) -> str:
    """Return scheme, host and port of a canonical URL as they are written: the same for all URLs of an origin."""
    end = url.find("/", 8)
    return url if end < 0 else url[:end]


def budget_host(url: str) -> str:
    """Return the host that a host budget is for: as `url_host`, but in the one spelling without a dot at the end."""
    return _strip_final_dot(url_host(url))


def parse_origin(url: str) -> Origin:
    return _parse_prefix(origin_prefix(url))


# The results are cached because they are needed several times with every request, and there are few hosts.
@lru_cache(maxsize=4_096)
def _strip_final_dot(host_and_port: str) -> str:
    host, colon, port = host_and_port.partition(":") if not host_and_port.startswith("[") else (host_and_port, "", "")
    return f"{host.rstrip('.')}{colon}{port}"


@lru_cache(maxsize=4_096)
def _parse_prefix(prefix: str) -> Origin:
    scheme, _, authority = prefix.partition("://")
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        return Origin(scheme, authority, _PORTS[scheme])
    return Origin(scheme, host, int(port))


def url_credentials(href: str) -> tuple[str, str] | None:
    """Return user and password, if the start URL carries them."""
    try:
        url = ada_url.URL(href)
    except ValueError:
        return None
    return (unquote(url.username), unquote(url.password)) if url.username or url.password else None


def resolve_links(hrefs: Iterable[str | None], base: str) -> list[str]:
    """Return the canonical targets of a page's links, each once, in the order of the page."""
    # Pages repeat their links: comparing the raw text first saves most of the parsing.
    unique_hrefs: dict[str, None] = {}
    for href in hrefs:
        if href and not href.startswith("#"):
            unique_hrefs.setdefault(href)
            if len(unique_hrefs) >= PAGE_LINKS:
                break
    urls: dict[str, None] = {}
    for href in unique_hrefs:
        url = canonical_url(href, base)
        if url is not None:
            urls.setdefault(url)
    return list(urls)
