"""Connection failures: converts exceptions of the HTTP client to a page failure, with its error class and its kind."""

from __future__ import annotations

import os

import aiohttp

from crawlfleet.execution.crawl.fetch.connections import NotHttp
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.network.address_guard import AddressRefused

FAILURES = (AddressRefused, TimeoutError, aiohttp.ClientError, OSError, ValueError)
"""Exceptions of a request that failed; ValueError, because headers that a server sends are not always HTTP."""

# The first match counts: some of these classes are bases of others.
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "dns"),
    (aiohttp.ClientSSLError, "tls"),
    (aiohttp.ClientConnectorError, "connect"),
    (aiohttp.ServerDisconnectedError, "closed"),
    (aiohttp.ClientPayloadError, "cut"),
    (aiohttp.ClientResponseError, "protocol"),
    (aiohttp.ClientOSError, "closed"),
    (OSError, "closed"),
)


def failure_from_exception(url: str, exc: Exception, total_s: float) -> PageFailed:
    match exc:
        case AddressRefused():
            return PageFailed("policy", f"{url}: {exc}", permanent=True)
        case aiohttp.ConnectionTimeoutError():
            return PageFailed("timeout", f"{url}: no connection in time", kind="connect", failed_url=url)
        case TimeoutError():
            return PageFailed("timeout", f"{url}: no answer within {total_s:g} s", failed_url=url)
        case aiohttp.InvalidURL():
            return PageFailed("input", f"{url}: not a URL", permanent=True)
    kind = next((kind for base, kind in _KINDS if isinstance(exc, base)), "protocol")
    # A certificate that is not valid now will not be valid in a minute.
    is_lasting = isinstance(exc, aiohttp.ClientConnectorCertificateError)
    return PageFailed(
        "network", f"{url}: {_describe_failure(kind, exc)}", permanent=is_lasting, kind=kind, failed_url=url
    )


def _describe_failure(kind: str, exc: Exception) -> str:
    """Describe a failure for people: in one line, and without what an unknown server sent."""
    words = " ".join(str(exc).split())
    match kind, exc:
        case "closed", aiohttp.ServerDisconnectedError():
            return "the connection was closed before the answer"
        case "cut", _:
            return "the answer broke off"
        case "protocol", NotHttp():
            return f"the answer is not HTTP ({words[:100]})"
        case "dns", aiohttp.ClientConnectorDNSError():
            return f"no address of {exc.host}: {exc.strerror or exc}"
        case "connect", aiohttp.ClientConnectorError():
            return f"no connection to {exc.host}:{exc.port}: {os.strerror(exc.errno) if exc.errno else exc.strerror}"
    return words[:300] or type(exc).__name__
