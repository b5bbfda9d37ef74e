"""The scope defines whose pages a crawl may visit: the start URLs' hosts, their subdomains, their domain, or any."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address

from tldextract import TLDExtract

from crawlfleet.execution.crawl.frontier.urls import place, site

KINDS = ("host", "subdomains", "domain", "any")
REMEMBERED = 10_000


class Scope:
    """The scope of a crawl. `hosts` are allowed besides the start URLs: a name, or `*.name` for all names below it."""

    def __init__(self, kind: str, starts: Iterable[str], hosts: Iterable[str] = ()) -> None:
        self._kind = kind
        named = [host.lower().rstrip(".") for host in hosts]
        self._hosts = {host for host in named if not host.startswith("*.")}
        self._below = tuple(host[1:] for host in named if host.startswith("*."))
        self._sites: set[str] = set()
        self._names: set[str] = set()
        self._known: dict[str, bool] = {}
        for url in starts:
            self.widen(url)

    def widen(self, url: str) -> None:
        """Add another URL's site to the scope, as if it were a start URL."""
        name = place(url).host.rstrip(".")
        self._sites.add(site(url))
        if self._kind == "domain":
            self._names.add(registrable(name))
        elif self._kind == "subdomains":
            self._names.add(name.removeprefix("www."))
        self._known.clear()

    def is_start(self, url: str) -> bool:
        """Return whether a URL is on the site of a start URL, or on one that was added by `widen`."""
        return site(url) in self._sites

    def holds(self, url: str) -> bool:
        where = site(url)
        known = self._known.get(where)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[where] = self._judge(where, url)
        return known

    def _judge(self, where: str, url: str) -> bool:
        if self._kind == "any" or where in self._sites:
            return True
        name = place(url).host.rstrip(".")
        if where in self._hosts or name in self._hosts or name.endswith(self._below):
            return True
        if self._kind == "domain":
            return registrable(name) in self._names
        if self._kind == "subdomains":
            return name in self._names or any(name.endswith(f".{above}") for above in self._names)
        return False


def registrable(host: str) -> str:
    """Return the registrable domain: `shop.co.uk` of `www.shop.co.uk`. Addresses and bare names stay as they are."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return _suffixes().extract_str(host).top_domain_under_public_suffix or host
    return host


@cache
def _suffixes() -> TLDExtract:
    # The list that comes with the package is used: nothing is fetched, nothing is written. Hosts below github.io and
    # the like belong to different people, so private suffixes count.
    return TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
