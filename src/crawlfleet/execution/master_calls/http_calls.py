"""Calls to a master over HTTP, and what its answers mean. Every call and every answer is bounded.

Only a master's own problem documents are believed. Whatever else answers at its address (a proxy without a backend,
another server, a page of HTML, a redirect) is like no answer: Unavailable, and asking again may help.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from crawlfleet.errors import (
    ConfigError,
    Conflict,
    CrawlfleetError,
    InvalidInput,
    NotAllowed,
    NotFound,
    SessionEnded,
    Unavailable,
)
from crawlfleet.ports.transport import MessageTooLarge

CONNECT_S = 3.0
ANSWER_BYTES = 128 << 20
"""Several times a master's longest answer; what goes on beyond this is none."""
PROBLEM_BYTES = 64 << 10
_ADDRESS_NOT_ALLOWED = "address_not_allowed"
"""Says nothing of the node: the networks of the master, or the way to it, may change again."""
PROBLEM_TYPE = "urn:crawlfleet:error:"
_FOREIGN = "no master answers like that; is there another server, or a proxy without a backend, at its address?"
_KEEP_ALIVE_S = 60.0


class Problem(msgspec.Struct):
    """RFC 9457, as far as a caller needs it."""

    type: str = ""
    detail: str = ""
    title: str = ""
    code: str = ""
    field: str | None = None


class StaleExecution(Conflict):
    code = "stale_execution"


class NoCrawl(NotFound):
    code = "no_crawl"


_CONFLICTS: dict[str, type[Conflict]] = {kind.code: kind for kind in (SessionEnded, StaleExecution)}


def open_session(ca_file: Path | None = None) -> aiohttp.ClientSession:
    """Connections to masters, kept open between calls. Raises ConfigError for a CA file that is none."""
    try:
        context = ssl.create_default_context(cafile=str(ca_file)) if ca_file is not None else True
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"ca_file: {ca_file}: {exc}") from exc
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, ssl=context)
    return aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=True)


def checked_address(url: str) -> str:
    """Raises ConfigError for what is no address of a master."""
    try:
        parsed = URL(url)
        is_good = parsed.scheme in ("http", "https") and bool(parsed.host)
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"master: {url!r} is no address of the form http://host:port")
    return url.rstrip("/")


async def call(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    bearer: str,
    body: bytes,
    within_s: float,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The body of a 2xx answer. Raises Unavailable when asking again may help, and else what the master objects to."""
    timeout = aiohttp.ClientTimeout(total=within_s, connect=CONNECT_S, sock_connect=CONNECT_S)
    sent = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json", **(headers or {})}
    try:
        async with session.request(
            method, url, data=body, headers=sent, timeout=timeout, allow_redirects=False
        ) as answer:
            if 200 <= answer.status < 300:
                if answer.content_type == "text/html":
                    raise Unavailable(f"{url}: a page of HTML: {_FOREIGN}")
                return await _read(answer, ANSWER_BYTES)
            raise _objection(answer.status, await _read(answer, PROBLEM_BYTES))
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise Unavailable(
            f"{url}: {type(exc).__name__}: {exc}" if str(exc) else f"{url}: {type(exc).__name__}"
        ) from exc


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            answer.close()
            raise Unavailable(f"an answer of more than {limit} bytes")
    return b"".join(parts)


def _objection(status: int, body: bytes) -> CrawlfleetError:
    problem = _problem(body)
    if problem is None:
        said = f"answered {status}: {_FOREIGN}"
        return MessageTooLarge(said, is_from_master=False) if status == 413 else Unavailable(said)
    said = problem.detail or problem.title or f"the master answered {status}"
    if status >= 500 or status in (408, 425, 429) or problem.code == _ADDRESS_NOT_ALLOWED:
        return Unavailable(said)
    match status:
        case 401 | 403:
            return NotAllowed(said)
        case 404:
            return NoCrawl(said) if problem.code == NoCrawl.code else NotFound(said)
        case 413:
            return MessageTooLarge(said)
        case 409:
            return _CONFLICTS.get(problem.code, Conflict)(said)
        case _:
            return InvalidInput(said, field=problem.field)


def _problem(body: bytes) -> Problem | None:
    """None for what is no problem document of a master."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_ours = bool(problem.code) and problem.type == f"{PROBLEM_TYPE}{problem.code}"
    return problem if is_ours else None
