"""Requests through proxies: chooses a proxy for a request, and decides whether a failure is the proxy's or the site's.

The proxy's own address has to be allowed like any other that is connected to. The target is judged as far as it can be
from here: an address in the URL always, a name by what it resolves to here, where it resolves at all. What the proxy
resolves it to cannot be seen from here.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping

import aiohttp

from crawlfleet.execution.crawl.fetch.http_client import RequestOptions
from crawlfleet.execution.crawl.frontier.urls import budget_host, parse_origin
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.process_state.proxy_pool import NoProxy, Proxy, ProxyRotation
from crawlfleet.network.address_guard import (
    AddressGuard,
    AddressRefused,
    GuardedResolver,
    as_address,
    plain_host,
)

RESOLVED_S = 60.0
NAMES = 1_000
_NOT_ALLOWED_IN = 407


class ProxyDown(Exception):
    """Raised when a proxy failed: the request may go through another one."""


def make_request_options(url: str, headers: Mapping[str, str], proxy: Proxy | None) -> RequestOptions:
    """Return the client's options for a request: its headers, and its proxy with the credentials for it."""
    if proxy is None:
        return RequestOptions(headers)
    if proxy.user is None:
        return RequestOptions(headers, proxy.url)
    login = {"Proxy-Authorization": basic_credentials(proxy.user, proxy.password)}
    if url.startswith("https:"):
        # Among the request's headers, the site would receive the proxy's credentials through the tunnel.
        return RequestOptions(headers, proxy.url, login)
    return RequestOptions({**headers, **login}, proxy.url)


def basic_credentials(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


class ProxySelector:
    def __init__(self, rotation: ProxyRotation, guard: AddressGuard, resolver: GuardedResolver) -> None:
        self._rotation = rotation
        self._guard = guard
        self._resolver = resolver
        self._checked_until: dict[str, float] = {}

    async def proxy_for(self, url: str) -> Proxy:
        """Return the proxy for a URL.

        Raises PageFailed when there is none, and AddressRefused for a target that may not be requested.
        """
        try:
            proxy = self._rotation.choose_proxy(budget_host(url))
        except NoProxy as exc:
            raise PageFailed("network", f"{url}: {exc}", kind="proxy", retry_after_s=exc.again_s) from exc
        try:
            self._guard.check_literal(proxy.host, proxy.port)
        except AddressRefused as exc:
            raise PageFailed("policy", f"{url}: its proxy may not be used: {exc}", permanent=True) from exc
        await self._check_target(url)
        return proxy

    def note_answer(self, proxy: Proxy, status: int, took_s: float) -> None:
        if status == _NOT_ALLOWED_IN:
            self._rotation.note_failure(proxy, "it wants another user or password")
            raise ProxyDown
        self._rotation.note_success(proxy, took_s)

    def check_failure(self, url: str, proxy: Proxy, exc: Exception) -> None:
        """Raise ProxyDown or PageFailed when the failure was the proxy's."""
        match exc:
            case aiohttp.ClientProxyConnectionError():
                self._rotation.note_failure(proxy, "no connection")
            case aiohttp.ClientHttpProxyError(status=407):
                self._rotation.note_failure(proxy, "it wants another user or password")
            case aiohttp.ClientHttpProxyError():
                # The proxy works; another proxy may reach what this one cannot.
                self._rotation.drop_proxy(budget_host(url))
                message = f"{url}: proxy {proxy.name} could not reach it (it answers {exc.status})"
                raise PageFailed("network", message, kind="proxy") from exc
            case AddressRefused():
                if plain_host(proxy.host) in str(exc):
                    raise PageFailed("policy", f"{url}: its proxy may not be used: {exc}", permanent=True) from exc
                return
            case _:
                return
        raise ProxyDown from exc

    def note_block(self, url: str) -> None:
        """Choose another proxy for the host, because the site blocks the address of this one."""
        self._rotation.drop_proxy(budget_host(url))

    async def _check_target(self, url: str) -> None:
        host, port = parse_origin(url)[1:]
        if as_address(plain_host(host)) is not None or self._checked_until.get(host, 0.0) > time.monotonic():
            return
        try:
            await self._resolver.resolve(host, port)
        except OSError:
            # Only the proxy knows this name.
            pass
        if len(self._checked_until) >= NAMES:
            self._checked_until.clear()
        self._checked_until[host] = time.monotonic() + RESOLVED_S
