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

MAX_NESTING = 8
_CLOSERS = {"(": ")", "[": "]"}
_FUNCTION = re.compile(r":([a-zA-Z-]+)$")
_NTH = re.compile(r"\s*(odd|even|[+-]?\d{1,6}|[+-]?\d{0,6}n(\s*[+-]\s*\d{1,6})?)\s*", re.IGNORECASE)
_OF = re.compile(r"\s+of\s+", re.IGNORECASE)
_LISTS = frozenset({"is", "where", "not", "has"})
_NTHS = frozenset({"nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"})
_POSITION = re.compile(r" at (\d+)>?$")


@lru_cache(maxsize=1_024)
def css_problem(text: str) -> str | None:
    """Return what is wrong with a selector; None for one that may be used."""
    if not text.strip():
        return "is empty"
    if not text.isprintable() and not re.fullmatch(r"[^\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]*", text):
        return "has control characters"
    try:
        brackets = _find_brackets(text)
    except _BadBrackets as exc:
        return str(exc)
    for start, end in brackets:
        if (problem := _call_problem(text, start, end)) is not None:
            return problem
    return None if _is_accepted(text) else _describe_error(text)


class _BadBrackets(Exception):
    pass


def _find_brackets(text: str) -> list[tuple[int, int]]:
    """Return where the insides of round brackets begin and end, inner ones first."""
    brackets: list[tuple[int, int]] = []
    open_at: list[int] = []
    for index, char in _outside_strings(text):
        if char in _CLOSERS:
            open_at.append(index)
            if len(open_at) > MAX_NESTING:
                raise _BadBrackets(f"is nested more than {MAX_NESTING} deep at position {index}")
        elif char in ")]":
            if not open_at or _CLOSERS[text[open_at[-1]]] != char:
                raise _BadBrackets(f"{char!r} at position {index} closes nothing")
            start = open_at.pop()
            if char == ")":
                brackets.append((start + 1, index))
    if open_at:
        raise _BadBrackets(f"{text[open_at[-1]]!r} at position {open_at[-1]} is not closed")
    return brackets


def _outside_strings(text: str) -> Iterator[tuple[int, str]]:
    quote, quoted_at, index = "", 0, 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            if index + 1 == len(text):
                raise _BadBrackets(f"ends with a backslash at position {index}")
            index += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote, quoted_at = char, index
        else:
            yield index, char
        index += 1
    if quote:
        raise _BadBrackets(f"the string at position {quoted_at} is not closed")


def _call_problem(text: str, start: int, end: int) -> str | None:
    function, inside = _FUNCTION.search(text[: start - 1]), text[start:end]
    name = function[1].lower() if function else ""
    if name in _LISTS:
        for part_start, part in _split_at_commas(inside):
            alone = part.strip().lstrip(">+~") if name == "has" else part
            if not _is_accepted(alone):
                return f"{part.strip()!r} at position {start + part_start} is none itself"
        return None
    if name in _NTHS:
        steps, *after_of = _OF.split(inside, maxsplit=1)
        if _NTH.fullmatch(steps) is None or (after_of and not _is_accepted(after_of[0])):
            return f"{inside!r} at position {start} is no count of :{name}()"
        return None
    if not name:
        return f"'(' at position {start - 1} belongs to nothing"
    return f":{name}() at position {start - 2 - len(name)} is not known"


def _split_at_commas(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts between commas that are in no brackets themselves."""
    depth, begin = 0, 0
    for index, char in _outside_strings(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            yield begin, text[begin:index]
            begin = index + 1
    yield begin, text[begin:]


def _is_accepted(text: str) -> bool:
    try:
        LexborHTMLParser("<p></p>").css(text)
    except (SelectolaxError, ValueError):
        return False
    return bool(text.strip())


def _describe_error(text: str) -> str:
    """Return the error of cssselect with its position; where it finds none, the part that lexbor refuses."""
    for start, part in _split_at_commas(text):
        if not _is_accepted(part):
            try:
                cssselect.parse(part)
            except cssselect.SelectorError as exc:
                message = str(exc)
                match = _POSITION.search(message)
                position = start + int(match[1] if match else 0)
                return f"{_POSITION.sub('', message).replace('<', '').lower()} at position {position}"
            pseudo = re.search(r"::?[a-zA-Z-]+", part)
            if pseudo is not None:
                return f"{pseudo[0]} at position {start + pseudo.start()} is not known"
            return f"{part.strip()!r} at position {start} is not understood"
    return "is not understood"
