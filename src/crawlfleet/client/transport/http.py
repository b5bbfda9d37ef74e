"""Sends one HTTP request, and sends it again where that is safe."""

from __future__ import annotations

import asyncio
import io
import random
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from crawlfleet.client.errors import ApiError, Unreachable
from crawlfleet.client.transport.retry import (
    RetryPolicy,
    may_repeat,
    new_idempotency_key,
    parse_retry_after,
    retry_pauses,
)
from crawlfleet.errors import InvalidInput

T = TypeVar("T")

CONNECT_S = 10.0
ANSWER_S = 60.0
CONNECTIONS = 32
LARGE_BYTES = 1 << 20
_BASE = "/api/v1"
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_LOST = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError, TimeoutError)
"""Exceptions of a lost connection; ClientResponseError is that of a server that does not speak HTTP."""
ANSWER_BYTES = 256 << 20
"""Maximum size of a response, several times the longest one of a master; a longer one does not come from a master."""

Params = Mapping[str, str | int | float | bool | Sequence[str] | None]


class Transport:
    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: Path | None = None,
        policy: RetryPolicy | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._ca_file = ca_file
        self._policy = policy or RetryPolicy()
        self._rng = rng or random.Random()
        self._timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, kind: type[T], path: str, params: Params | None = None) -> T:
        return self._decode_answer(kind, await self._send_with_retries("GET", path, params=params, is_repeatable=True))

    async def create(
        self, kind: type[T], path: str, body: object, *, key: str | None = None, params: Params | None = None
    ) -> T:
        """Send a POST that creates something: one idempotency key for all its attempts makes them one request."""
        headers = {"Idempotency-Key": new_idempotency_key() if key is None else key}
        return self._decode_answer(
            kind,
            await self._send_with_retries("POST", path, body=body, headers=headers, params=params, is_repeatable=True),
        )

    async def change(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: object = None,
        *,
        params: Params | None = None,
        is_repeatable: bool = False,
    ) -> T:
        """Change something that exists; sent again after a lost answer only where doing it twice has the same
        effect."""
        return self._decode_answer(
            kind, await self._send_with_retries(method, path, body=body, params=params, is_repeatable=is_repeatable)
        )

    async def _send_with_retries(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        params: Params | None = None,
        is_repeatable: bool,
    ) -> bytes:
        content = b"" if body is None else _encode_body(body)
        waits = retry_pauses(self._policy, self._rng)
        error: ApiError | Unreachable
        while True:
            try:
                async with self._send_request(method, path, content, headers, params) as answer:
                    data = await _read_bounded(answer)
                    if answer.status < 400 and not _is_foreign_page(answer):
                        return data
                    error, wait = (
                        _decode_error(answer.status, data),
                        parse_retry_after(answer.headers.get("Retry-After")),
                    )
            except _NEVER_SENT as exc:
                error, wait = Unreachable(self.url, exc), 0.0
            except _LOST as exc:
                error, wait = Unreachable(self.url, exc), 0.0
                if not is_repeatable:
                    raise error from exc
            if isinstance(error, ApiError) and not _may_repeat(error, is_repeatable=is_repeatable):
                raise error
            pause = next(waits, None)
            if pause is None or wait > self._policy.longest_wait_s:
                raise error
            await asyncio.sleep(max(pause, wait))

    def retry_pauses(self) -> Iterator[float]:
        """Return the pauses between attempts, for callers that repeat a request by themselves."""
        return retry_pauses(self._policy, self._rng)

    @asynccontextmanager
    async def open_stream(
        self, path: str, *, params: Params | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a long response that is read while it comes. Nothing is sent again: the caller knows from where to go
        on."""
        async with self.open_response(path, params=params, headers=headers) as answer:
            yield answer.content

    @asynccontextmanager
    async def open_response(
        self,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float = ANSWER_S,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a long response with its headers; `read_s` is the longest time without data."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=read_s)
        try:
            async with self._send_request("GET", path, b"", headers, params, timeout) as answer:
                if answer.status >= 400 or _is_foreign_page(answer):
                    raise _decode_error(answer.status, await _read_bounded(answer))
                yield answer
        except _LOST as exc:
            raise Unreachable(self.url, exc) from exc

    def _send_request(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str] | None,
        params: Params | None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> Any:
        session = self._open_session()
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json, */*;q=0.5", **(headers or {})}
        if content:
            sent["Content-Type"] = "application/json"
        return session.request(
            method,
            URL(f"{self.url}{_BASE}{path}", encoded=True),
            data=_body_stream(content),
            headers=sent,
            params=_query_pairs(params),
            timeout=timeout or self._timeout,
            allow_redirects=False,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            tls = ssl.create_default_context(cafile=str(self._ca_file)) if self._ca_file else True
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS))
        return self._session

    def _decode_answer(self, kind: type[T], data: bytes) -> T:
        if kind is type(None):
            return None
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise ApiError(200, "unreadable_answer", f"the answer of {self.url} cannot be read: {exc}") from exc


def _encode_body(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as exc:
        # Half a character, such as the shell makes of a byte that is no UTF-8.
        raise InvalidInput(f"{exc.object[:100]!r} cannot be sent: it is no valid Unicode") from exc


def _body_stream(content: bytes) -> bytes | io.BytesIO | None:
    # A large body is written piece by piece, so that other tasks of the event loop can run.
    return io.BytesIO(content) if len(content) > LARGE_BYTES else content or None


def _query_pairs(params: Params | None) -> list[tuple[str, str]] | None:
    if not params:
        return None
    pairs: list[tuple[str, str]] = []
    for name, value in params.items():
        match value:
            case None:
                pass
            case bool():
                pairs.append((name, str(value).lower()))
            case str() | int() | float():
                pairs.append((name, str(value)))
            case _:
                pairs.extend((name, text) for text in value)
    return pairs


async def _read_bounded(answer: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES:
            answer.close()
            raise aiohttp.ClientPayloadError(f"an answer of more than {ANSWER_BYTES} bytes")
    return b"".join(parts)


def _is_foreign_page(answer: aiohttp.ClientResponse) -> bool:
    """Return whether the response is a redirect or a page for people: no master gives one to a call of the API."""
    return 300 <= answer.status < 400 or (answer.status < 300 and answer.content_type == "text/html")


def _may_repeat(error: ApiError, *, is_repeatable: bool) -> bool:
    """Return whether the request may be repeated; a response of another server at the master's address counts as
    none."""
    if is_repeatable and error.is_foreign:
        return True
    return may_repeat(error.status, error.error_code, is_repeatable=is_repeatable)


def _decode_error(status: int, data: bytes) -> ApiError:
    try:
        return ApiError.from_problem(status, msgspec.json.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ApiError.from_problem(status, None)
