r"""Checks whether a text is a CSS selector that is safe for lexbor, and if not, what is wrong and where.

A wrong text is not always just refused by lexbor: `:where(:lexbor-contains(1)x,:nth-last-of-type()\` ends the process,
and this runs in masters. Lists inside :is() and :where() are forgiving, and there it goes wrong. So brackets and
strings are checked here first, and the text in brackets is checked alone, from the inside out, before the whole is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import cssselect
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

NESTING = 8
_CLOSERS = {"(": ")", "[": "]"}
_FUNCTION = re.compile(r":([a-zA-Z-]+)$")
_NTH = re.compile(r"\s*(odd|even|[+-]?\d{1,6}|[+-]?\d{0,6}n(\s*[+-]\s*\d{1,6})?)\s*", re.IGNORECASE)
_OF = re.compile(r"\s+of\s+", re.IGNORECASE)
_LISTS = frozenset({"is", "where", "not", "has"})
_NTHS = frozenset({"nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"})
_AT = re.compile(r" at (\d+)>?$")


@lru_cache(maxsize=1_024)
def css_problem(text: str) -> str | None:
    """Return what is wrong with a selector; None for one that may be used."""
    if not text.strip():
        return "is empty"
    if not text.isprintable() and not re.fullmatch(r"[^\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]*", text):
        return "has control characters"
    try:
        brackets = _brackets(text)
    except _Wrong as exc:
        return str(exc)
    for start, end in brackets:
        if (problem := _call_problem(text, start, end)) is not None:
            return problem
    return None if _is_taken(text) else _said(text)


class _Wrong(Exception):
    pass


def _brackets(text: str) -> list[tuple[int, int]]:
    """Return where the insides of round brackets begin and end, inner ones first."""
    found: list[tuple[int, int]] = []
    open_at: list[int] = []
    for at, char in _outside_strings(text):
        if char in _CLOSERS:
            open_at.append(at)
            if len(open_at) > NESTING:
                raise _Wrong(f"is nested more than {NESTING} deep at position {at}")
        elif char in ")]":
            if not open_at or _CLOSERS[text[open_at[-1]]] != char:
                raise _Wrong(f"{char!r} at position {at} closes nothing")
            start = open_at.pop()
            if char == ")":
                found.append((start + 1, at))
    if open_at:
        raise _Wrong(f"{text[open_at[-1]]!r} at position {open_at[-1]} is not closed")
    return found


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    quote, quoted_at, at = "", 0, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            if at + 1 == len(text):
                raise _Wrong(f"ends with a backslash at position {at}")
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote, quoted_at = char, at
        else:
            yield at, char
        at += 1
    if quote:
        raise _Wrong(f"the string at position {quoted_at} is not closed")


def _call_problem(text: str, start: int, end: int) -> str | None:
    called, inside = _FUNCTION.search(text[: start - 1]), text[start:end]
    name = called[1].lower() if called else ""
    if name in _LISTS:
        for part_at, part in _parts(inside):
            alone = part.strip().lstrip(">+~") if name == "has" else part
            if not _is_taken(alone):
                return f"{part.strip()!r} at position {start + part_at} is none itself"
        return None
    if name in _NTHS:
        steps, *of = _OF.split(inside, maxsplit=1)
        if _NTH.fullmatch(steps) is None or (of and not _is_taken(of[0])):
            return f"{inside!r} at position {start} is no count of :{name}()"
        return None
    if not name:
        return f"'(' at position {start - 1} belongs to nothing"
    return f":{name}() at position {start - 2 - len(name)} is not known"


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts between commas that are in no brackets themselves."""
    depth, begin = 0, 0
    for at, char in _outside_strings(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield begin, text[begin:at]
            begin = at + 1
    yield begin, text[begin:]


def _is_taken(text: str) -> bool:
    try:
        LexborHTMLParser("<p></p>").css(text)
    except (SelectolaxError, ValueError):
        return False
    return bool(text.strip())


def _said(text: str) -> str:
    """Return the error of cssselect with its position; where it finds none, the part that lexbor refuses."""
    for at, part in _parts(text):
        if not _is_taken(part):
            try:
                cssselect.parse(part)
            except cssselect.SelectorError as exc:
                said = str(exc)
                place = _AT.search(said)
                return f"{_AT.sub('', said).replace('<', '').lower()} at position {at + int(place[1] if place else 0)}"
            pseudo = re.search(r"::?[a-zA-Z-]+", part)
            if pseudo is not None:
                return f"{pseudo[0]} at position {at + pseudo.start()} is not known"
            return f"{part.strip()!r} at position {at} is not understood"
    return "is not understood"
