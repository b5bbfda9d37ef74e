"""One POST to a service: to checked addresses only, without redirects, within a bounded time, with a bounded answer."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver

from crawlfleet.model.instants import Instant
from crawlfleet.network.address_guard import AddressGuard, AddressRefused, GuardedResolver
from crawlfleet.ports.notice_channel import SEND_S
from crawlfleet.version import __version__

ANSWER_BYTES = 64 << 10
"""The largest answer that is read; a confirmation has a few hundred bytes."""
RETRY_AFTER_S_MAX = 86_400.0
_USER_AGENT = f"crawlfleet/{__version__}"


class PostFailed(Exception):
    """The request brought no answer that can be read. The text is for people and quotes no address."""

    def __init__(self, words: str, *, is_permanent: bool = False) -> None:
        super().__init__(words)
        self.is_permanent = is_permanent


@dataclass(frozen=True, slots=True)
class PostRequest:
    """One request: an address, which may contain secrets, and a body of JSON."""

    url: str
    body: bytes
    headers: Mapping[str, str]
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a service."""

    status: int
    text: str
    retry_after_s: float | None = None

    def parse_object(self) -> dict[str, Any] | None:
        """Return the body as a JSON object; None for anything else."""
        try:
            body = json.loads(self.text)
        except (ValueError, RecursionError):
            return None
        return body if isinstance(body, dict) else None


class HttpPoster:
    """Sends requests, each over a connection of its own."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        send_s: float = SEND_S,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._send_s = send_s
        self._resolver = resolver
        self._tls: ssl.SSLContext | bool = True if tls is None else tls

    async def post(self, request: PostRequest, now: Instant) -> HttpAnswer:
        """Send a request and return its answer. Raises PostFailed."""
        url = yarl.URL(request.url, encoded=True)
        try:
            self._guard.check_literal(url.raw_host or "", url.port or 443)
            async with asyncio.timeout(self._send_s):
                return await self._exchange(url, request, now)
        except AddressRefused as exc:
            raise PostFailed(str(exc), is_permanent=True) from exc
        except TimeoutError as exc:
            raise PostFailed(f"no answer within {self._send_s:g} s") from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise PostFailed(_describe_failure(exc)) from exc

    async def _exchange(self, url: yarl.URL, request: PostRequest, now: Instant) -> HttpAnswer:
        resolver = GuardedResolver(self._resolver or ThreadedResolver(), self._guard)
        connector = aiohttp.TCPConnector(
            resolver=resolver, socket_factory=self._guard.open_socket, ssl=self._tls, force_close=True
        )
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": _USER_AGENT,
            # A small answer that unpacks to a large one would pass the limit on its size.
            "Accept-Encoding": "identity",
            **request.headers,
        }
        timeout = aiohttp.ClientTimeout(total=self._send_s)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.request(
                request.method, url, data=request.body or None, headers=headers, allow_redirects=False
            ) as response,
        ):
            if 300 <= response.status < 400:
                raise PostFailed(
                    f"the service answers {response.status} and points to another address: redirects are not followed, "
                    "so give the channel the final address"
                )
            raw = await _read_bounded(response)
            return HttpAnswer(
                status=response.status,
                text=raw.decode("utf-8", "replace"),
                retry_after_s=parse_retry_after(response.headers.get("Retry-After"), now),
            )


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode the body of a request as UTF-8, so that the limits of services count what people wrote."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def parse_retry_after(value: str | None, now: Instant) -> float | None:
    """Parse a Retry-After header, in seconds or as a date; None for one that says nothing. At most a day."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_S_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, moment.timestamp() - now / 1000), RETRY_AFTER_S_MAX)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES:
            raise PostFailed(f"the answer ({response.status}) is larger than {ANSWER_BYTES >> 10} KiB: it is no answer")
    return b"".join(parts)


def _describe_failure(exc: Exception) -> str:
    """Describe a failure without the address, which is a secret for most services."""
    match exc:
        case aiohttp.ClientConnectorDNSError():
            return f"no address of {exc.host} was found"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {exc.host} is not valid"
        case aiohttp.ClientSSLError():
            return f"no TLS connection to {exc.host}:{exc.port}"
        case aiohttp.ClientConnectorError():
            reason = os.strerror(exc.errno) if exc.errno else "it failed"
            return f"no connection to {exc.host}:{exc.port}: {reason}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return "the connection was closed before the answer"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
    return f"the request failed ({type(exc).__name__})"
