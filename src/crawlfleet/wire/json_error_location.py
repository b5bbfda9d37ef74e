"""Finds where a malformed JSON body is broken: for responses that name the field, and to read the other tasks of a
batch with one bad task.

A decoder stops at the first byte that it cannot accept and reports little about its place. The refused body is cut up
here by its brackets and commas alone, however deep it goes, and every piece is decoded again by itself: nothing is
accepted that the decoder would not accept.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

import msgspec

from crawlfleet.model import limits

MAX_BYTES = 4 * limits.PARAMETERS_BYTES
MAX_TOKENS = 500_000
"""Maximum number of tokens that are searched: a larger body may cost its sender the place of the fault, never a master
its time."""

DEPTH_MESSAGE = f"nested deeper than {limits.JSON_DEPTH} levels"
UTF8_MESSAGE = "not valid UTF-8"

_STRING = rb'"[^"\\]*(?:\\[\s\S][^"\\]*)*"'
# A string that never ends matches to the end: a search again from each of its quotes would take quadratic time.
_TOKEN = re.compile(_STRING + rb"?|[\[\]{},]")
_MEMBER = re.compile(rb"\s*(" + _STRING + rb")\s*:")
_UNPAIRED = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
)
_PLACE = re.compile(r" \(byte \d+\)$| - at `[^`]*`$")


class Fault(NamedTuple):
    field: str
    detail: str


def split_array(array: bytes) -> list[bytes] | None:
    """Return the pieces of a JSON array; None when its brackets do not show where they are."""
    pieces = _split_members(array, b"[]")
    return None if pieces is None or not all(piece.strip() for piece in pieces) else pieces


def find_fault(body: bytes) -> Fault | None:
    """Return the first member of a JSON object that cannot be decoded, and why."""
    for piece in _split_members(body, b"{}") or ():
        key = _MEMBER.match(piece)
        if key is None:
            return None
        if detail := find_decode_error(piece[key.end() :]):
            return Fault(_decode_key(key.group(1)), detail)
    return None


def find_decode_error(value: bytes) -> str | None:
    """Return why these bytes are no JSON value, or None if they are one."""
    try:
        msgspec.json.decode(value)
    except RecursionError:
        return DEPTH_MESSAGE
    except UnicodeDecodeError:
        return UTF8_MESSAGE
    except msgspec.DecodeError as exc:
        return "has an unpaired surrogate" if _UNPAIRED.search(value) else _reword_error(_PLACE.sub("", str(exc)))
    return None


def _reword_error(detail: str) -> str:
    """Turn the decoder's message into the end of a sentence about JSON."""
    return "it ends too early" if detail == "Input data was truncated" else detail.removeprefix("JSON is malformed: ")


def _split_members(raw: bytes, brackets: bytes) -> list[bytes] | None:
    if len(raw) > MAX_BYTES or raw.strip()[:1] != brackets[:1]:
        return None
    pieces: list[bytes] = []
    depth = start = 0
    for token in islice(_TOKEN.finditer(raw), MAX_TOKENS):
        text = token.group()
        if text in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
        elif text in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                pieces.append(raw[start : token.start()])
                return pieces if text == brackets[1:] and not raw[token.end() :].strip() else None
        elif text == b"," and depth == 1:
            pieces.append(raw[start : token.start()])
            start = token.end()
    return None


def _decode_key(key: bytes) -> str:
    return key[1:-1].decode("utf-8", "replace")[: limits.NAME_CHARS]
