"""Writes records of WARC 1.1, each compressed by itself, so that records one after the other, in any order, are an
archive."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable

Header = tuple[str, str]
_LEVEL = 6
_LINE_ENDS = re.compile(r"[\r\n]+")


def write_record(kind: str, fields: Iterable[Header], block: bytes) -> bytes:
    """Return one record. The fields are those that its kind needs beside its length and the digest of its block."""
    head = [
        ("WARC-Type", kind),
        *fields,
        ("WARC-Block-Digest", content_digest(block)),
        ("Content-Length", str(len(block))),
    ]
    return gzip.compress(b"WARC/1.1\r\n" + header_lines(head) + b"\r\n" + block + b"\r\n\r\n", _LEVEL, mtime=0)


def header_lines(fields: Iterable[Header]) -> bytes:
    return b"".join(header_line(f"{name}: {value}") for name, value in fields)


def header_line(text: str) -> bytes:
    """Return one line of a head. A line that a server folded, or that has other line ends, must not become two
    lines."""
    return _LINE_ENDS.sub(" ", text).encode("latin-1", "replace") + b"\r\n"


def content_digest(data: bytes) -> str:
    """Return the digest by which archives name a content; it is no protection against forgery."""
    return f"sha1:{base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()}"
