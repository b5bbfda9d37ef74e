"""A record of WARC 1.1, compressed by itself: records one after the other, in whatever order, are an archive."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable

Header = tuple[str, str]
_LEVEL = 6
_LINE_ENDS = re.compile(r"[\r\n]+")


def record(kind: str, fields: Iterable[Header], block: bytes) -> bytes:
    """The fields are those that its kind needs beside its length and the digest of its block."""
    head = [("WARC-Type", kind), *fields, ("WARC-Block-Digest", digest(block)), ("Content-Length", str(len(block)))]
    return gzip.compress(b"WARC/1.1\r\n" + header_lines(head) + b"\r\n" + block + b"\r\n\r\n", _LEVEL, mtime=0)


def header_lines(fields: Iterable[Header]) -> bytes:
    return b"".join(line(f"{name}: {value}") for name, value in fields)


def line(text: str) -> bytes:
    """Of a head. One that a server folded, or worse, must not become two of ours."""
    return _LINE_ENDS.sub(" ", text).encode("latin-1", "replace") + b"\r\n"


def digest(data: bytes) -> str:
    """As archives name a content: not to keep anybody from forging it."""
    return f"sha1:{base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()}"
