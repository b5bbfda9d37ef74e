"""Robots directives of a page: the X-Robots-Tag header, and `<meta name="robots">`."""

from __future__ import annotations

from collections.abc import Iterable

_EITHER = {"none": ("noindex", "nofollow")}
_WITH_VALUE = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})


def in_headers(headers: Iterable[str], agent: str) -> frozenset[str]:
    """Return the directives for this crawler: those for all robots, and those for its own name."""
    found: set[str] = set()
    for header in headers:
        name, colon, rest = header.partition(":")
        name = name.strip().lower()
        is_addressed = colon and "," not in name and name not in _WITH_VALUE
        if not is_addressed:
            found |= _words(header)
        elif name == agent.lower():
            found |= _words(rest)
    return frozenset(found)


def in_content(contents: Iterable[str]) -> frozenset[str]:
    """Return the directives in the `content` of meta tags."""
    return frozenset(word for content in contents for word in _words(content))


def _words(text: str) -> set[str]:
    words = {word.strip().lower() for word in text.split(",")}
    return words | {meant for word in words for meant in _EITHER.get(word, ())}
