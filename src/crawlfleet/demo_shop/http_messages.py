"""HTTP/1 requests and responses as bytes: a response that a library would refuse to send can be written as well."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import parse_qsl

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
HEAD_BYTES = 65_536
"""Largest head of a request; a longer one is refused."""


class Malformed(ValueError):
    """The bytes are not a request of HTTP/1."""


class Request:
    """A request of HTTP/1."""

    __slots__ = ("body", "client", "headers", "host", "is_old", "method", "path", "query", "target")

    def __init__(self, method: str, target: str, headers: dict[str, str], *, client: tuple[str, int], is_old: bool):
        self.method = method
        self.target = target
        """Path and query, as sent."""
        self.path, _, self.query = target.partition("?")
        self.headers = headers
        """Headers by lower-case name; of a repeated name the last one counts."""
        self.host = headers.get("host", "")
        self.client = client
        self.is_old = is_old
        """Whether it is HTTP/1.0, where the connection closes after the response."""
        self.body = b""

    @property
    def parameters(self) -> dict[str, str]:
        return dict(parse_qsl(self.query, keep_blank_values=True))

    @property
    def cookies(self) -> dict[str, str]:
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name: value for name, equals, value in pairs if equals}

    @property
    def origin(self) -> str:
        return f"http://{self.host or 'localhost'}"

    @property
    def label(self) -> str:
        """The first label of the host name: `robots-404` of `robots-404.shop.test:8080`."""
        return self.host.partition(":")[0].partition(".")[0].lower()

    @property
    def is_kept_alive(self) -> bool:
        requested = self.headers.get("connection", "").lower()
        return requested == "keep-alive" if self.is_old else requested != "close"


def parse_request(head: bytes, client: tuple[str, int]) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Malformed(first[:100])
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    target = words[1]
    if not target.startswith("/"):
        # The absolute form that a client sends to a proxy: the site may act as one.
        target = "/" + target.partition("://")[2].partition("/")[2]
    return Request(words[0], target, headers, client=client, is_old=words[2] == "HTTP/1.0")


def write_head(
    status: int, headers: Iterable[tuple[str, str]] = (), content_type: str | None = HTML, version: str = "HTTP/1.1"
) -> bytes:
    """Write the head alone, without a header for the length of the body."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Odd"
    lines = [f"{version} {status} {reason}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def write_response(
    status: int,
    body: bytes | str = b"",
    headers: Iterable[tuple[str, str]] = (),
    content_type: str | None = HTML,
    version: str = "HTTP/1.1",
) -> bytes:
    """Write a whole, well-formed response."""
    raw = body.encode() if isinstance(body, str) else body
    return write_head(status, [*headers, ("Content-Length", str(len(raw)))], content_type, version) + raw


def is_number(text: str) -> bool:
    """Return whether the text, from a path or query, is a number of at most nine ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) < 10
