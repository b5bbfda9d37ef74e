"""Robots directives of a page: the X-Robots-Tag header, and `<meta name="robots">`."""

from __future__ import annotations

from collections.abc import Iterable

_EITHER = {"none": ("noindex", "nofollow")}
_WITH_VALUE = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})


def directives_in_headers(headers: Iterable[str], agent: str) -> frozenset[str]:
    """Return the directives for this crawler: those for all robots, and those for its own name."""
    directives: set[str] = set()
    for header in headers:
        name, colon, rest = header.partition(":")
        name = name.strip().lower()
        is_addressed = colon and "," not in name and name not in _WITH_VALUE
        if not is_addressed:
            directives |= _split_directives(header)
        elif name == agent.lower():
            directives |= _split_directives(rest)
    return frozenset(directives)


def directives_in_content(contents: Iterable[str]) -> frozenset[str]:
    """Return the directives in the `content` of meta tags."""
    return frozenset(word for content in contents for word in _split_directives(content))


def _split_directives(text: str) -> set[str]:
    words = {word.strip().lower() for word in text.split(",")}
    return words | {meant for word in words for meant in _EITHER.get(word, ())}
