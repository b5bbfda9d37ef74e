"""HTTP calls to a master, and the exceptions its answers map to. Every call and every answer is bounded.

Only a master's own problem documents are believed. Any other answer at its address (a proxy without a backend,
another server, a page of HTML, a redirect) counts as none: Unavailable, and a retry may help.
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
MAX_ANSWER_BYTES = 128 << 20
"""Several times the size of a master's longest answer; a longer one is treated as unavailable."""
MAX_PROBLEM_BYTES = 64 << 10
_ADDRESS_NOT_ALLOWED = "address_not_allowed"
"""Error code that is retried: it says nothing about the node, and the allowed networks of the master may change."""
PROBLEM_TYPE = "urn:crawlfleet:error:"
_NOT_A_MASTER = "no master answers like that; is there another server, or a proxy without a backend, at its address?"
_KEEP_ALIVE_S = 60.0


class ProblemDocument(msgspec.Struct):
    """The fields of an RFC 9457 problem document that a caller needs."""

    type: str = ""
    detail: str = ""
    title: str = ""
    code: str = ""
    field: str | None = None


class StaleExecutionError(Conflict):
    """The execution is no longer the live one of its task."""

    code = "stale_execution"


class UnknownCrawlError(NotFound):
    """The crawl that an execution names does not exist."""

    code = "no_crawl"


_CONFLICTS: dict[str, type[Conflict]] = {kind.code: kind for kind in (SessionEnded, StaleExecutionError)}


def open_http_session(ca_file: Path | None = None) -> aiohttp.ClientSession:
    """Open the HTTP session for calls to masters, with keep-alive. Raises ConfigError for an invalid CA file."""
    try:
        context = ssl.create_default_context(cafile=str(ca_file)) if ca_file is not None else True
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"ca_file: {ca_file}: {exc}") from exc
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, ssl=context)
    return aiohttp.ClientSession(connector=connector, trust_env=False, auto_decompress=True)


def normalise_master_url(url: str) -> str:
    """The URL of a master without a trailing slash. Raises ConfigError for anything but an http or https URL."""
    try:
        parsed = URL(url)
        is_good = parsed.scheme in ("http", "https") and bool(parsed.host)
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"master: {url!r} is no address of the form http://host:port")
    return url.rstrip("/")


async def call_master(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    bearer: str,
    body: bytes,
    within_s: float,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Call a master and return the body of its 2xx answer.

    Raises Unavailable when a retry may help, otherwise the exception for the master's problem document.
    """
    timeout = aiohttp.ClientTimeout(total=within_s, connect=CONNECT_S, sock_connect=CONNECT_S)
    all_headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json", **(headers or {})}
    try:
        async with session.request(
            method, url, data=body, headers=all_headers, timeout=timeout, allow_redirects=False
        ) as answer:
            if 200 <= answer.status < 300:
                if answer.content_type == "text/html":
                    raise Unavailable(f"{url}: a page of HTML: {_NOT_A_MASTER}")
                return await _read_body(answer, MAX_ANSWER_BYTES)
            raise _error_from_answer(answer.status, await _read_body(answer, MAX_PROBLEM_BYTES))
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise Unavailable(
            f"{url}: {type(exc).__name__}: {exc}" if str(exc) else f"{url}: {type(exc).__name__}"
        ) from exc


async def _read_body(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > limit:
            answer.close()
            raise Unavailable(f"an answer of more than {limit} bytes")
    return b"".join(parts)


def _error_from_answer(status: int, body: bytes) -> CrawlfleetError:
    problem = _parse_problem(body)
    if problem is None:
        message = f"answered {status}: {_NOT_A_MASTER}"
        return MessageTooLarge(message, is_from_master=False) if status == 413 else Unavailable(message)
    message = problem.detail or problem.title or f"the master answered {status}"
    if status >= 500 or status in (408, 425, 429) or problem.code == _ADDRESS_NOT_ALLOWED:
        return Unavailable(message)
    match status:
        case 401 | 403:
            return NotAllowed(message)
        case 404:
            return UnknownCrawlError(message) if problem.code == UnknownCrawlError.code else NotFound(message)
        case 413:
            return MessageTooLarge(message)
        case 409:
            return _CONFLICTS.get(problem.code, Conflict)(message)
        case _:
            return InvalidInput(message, field=problem.field)


def _parse_problem(body: bytes) -> ProblemDocument | None:
    """Decode a problem document; None for a body that is no problem document of a master."""
    try:
        problem = msgspec.json.decode(body, type=ProblemDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_ours = bool(problem.code) and problem.type == f"{PROBLEM_TYPE}{problem.code}"
    return problem if is_ours else None
