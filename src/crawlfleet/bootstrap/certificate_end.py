"""Reads until when a certificate is valid: the one field of X.509 that is needed, read from its DER structure.

The standard library parses certificates only within a connection.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from pathlib import Path

from crawlfleet.model.instants import Instant

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _SHORT_TIME, _VERSION = 0x30, 0x17, 0xA0
_FIELDS_BEFORE_VALIDITY = 3
"""Serial number, signature algorithm and issuer stand before the validity."""


class CertificateUnreadable(ValueError):
    """The file has no certificate that can be read."""


def read_certificate_end(path: Path) -> Instant:
    """Return the instant at which the first certificate of a PEM file ends. Raises CertificateUnreadable, OSError."""
    match = _PEM.search(path.read_bytes())
    if match is None:
        raise CertificateUnreadable(f"{path} has no certificate in PEM")
    try:
        body = base64.b64decode(match[1], validate=False)
        return _read_end(body)
    except (binascii.Error, IndexError, ValueError) as exc:
        raise CertificateUnreadable(f"the certificate in {path} cannot be read") from exc


def _read_end(body: bytes) -> Instant:
    certificate = _content(body, 0, _SEQUENCE)
    to_be_signed = _content(certificate, 0, _SEQUENCE)
    position = 0
    if to_be_signed[0] == _VERSION:
        position = _end(to_be_signed, position)
    for _ in range(_FIELDS_BEFORE_VALIDITY):
        position = _end(to_be_signed, position)
    validity = _content(to_be_signed, position, _SEQUENCE)
    return _read_time(validity, _end(validity, 0))


def _read_time(body: bytes, position: int) -> Instant:
    kind = body[position]
    start, end = _bounds(body, position)
    text = body[start:end].decode("ascii")
    if kind == _SHORT_TIME:
        # Two digits of the year: from 50 on they belong to the last century.
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return round(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)


def _content(body: bytes, position: int, kind: int) -> bytes:
    if body[position] != kind:
        raise ValueError("another structure")
    start, end = _bounds(body, position)
    return body[start:end]


def _end(body: bytes, position: int) -> int:
    return _bounds(body, position)[1]


def _bounds(body: bytes, position: int) -> tuple[int, int]:
    """Return where the content of the element at a position begins and ends."""
    length, start = body[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(body[start : start + count], "big"), start + count
    if start + length > len(body):
        raise ValueError("cut off")
    return start, start + length
