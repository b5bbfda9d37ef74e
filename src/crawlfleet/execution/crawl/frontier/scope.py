"""The scope defines whose pages a crawl may visit: the start URLs' hosts, their subdomains, their domain, or any."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address

from tldextract import TLDExtract

from crawlfleet.execution.crawl.frontier.urls import parse_origin, url_host

KINDS = ("host", "subdomains", "domain", "any")
MAX_DECISIONS = 10_000


class Scope:
    """The scope of a crawl. `hosts` are allowed besides the start URLs: a name, or `*.name` for all names below it."""

    def __init__(self, kind: str, starts: Iterable[str], hosts: Iterable[str] = ()) -> None:
        self._kind = kind
        named = [host.lower().rstrip(".") for host in hosts]
        self._hosts = {host for host in named if not host.startswith("*.")}
        self._parent_domains = tuple(host[1:] for host in named if host.startswith("*."))
        self._sites: set[str] = set()
        self._domains: set[str] = set()
        self._decisions: dict[str, bool] = {}
        for url in starts:
            self.add_site(url)

    def add_site(self, url: str) -> None:
        """Add another URL's site to the scope, as if it were a start URL."""
        name = parse_origin(url).host.rstrip(".")
        self._sites.add(url_host(url))
        if self._kind == "domain":
            self._domains.add(registrable_domain(name))
        elif self._kind == "subdomains":
            self._domains.add(name.removeprefix("www."))
        self._decisions.clear()

    def is_start_site(self, url: str) -> bool:
        """Return whether a URL is on the site of a start URL, or on one that was added by `add_site`."""
        return url_host(url) in self._sites

    def contains_url(self, url: str) -> bool:
        host = url_host(url)
        is_inside = self._decisions.get(host)
        if is_inside is None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            is_inside = self._decisions[host] = self._is_in_scope(host, url)
        return is_inside

    def _is_in_scope(self, host: str, url: str) -> bool:
        if self._kind == "any" or host in self._sites:
            return True
        name = parse_origin(url).host.rstrip(".")
        if host in self._hosts or name in self._hosts or name.endswith(self._parent_domains):
            return True
        if self._kind == "domain":
            return registrable_domain(name) in self._domains
        if self._kind == "subdomains":
            return name in self._domains or any(name.endswith(f".{parent}") for parent in self._domains)
        return False


def registrable_domain(host: str) -> str:
    """Return the registrable domain: `shop.co.uk` of `www.shop.co.uk`. Addresses and bare names stay as they are."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return _public_suffixes().extract_str(host).top_domain_under_public_suffix or host
    return host


@cache
def _public_suffixes() -> TLDExtract:
    # The list that comes with the package is used: nothing is fetched, nothing is written. Hosts below github.io and
    # the like belong to different people, so private suffixes count.
    return TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
