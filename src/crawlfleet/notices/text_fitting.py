"""Fits text into the byte limit of a service, without cutting a character or a piece of markup in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

CUT = "…"


def cut_text(text: str, max_bytes: int) -> str:
    """Return the text, or its longest beginning that fits into `max_bytes` of UTF-8 with an ellipsis at its end."""
    return cut_rendered(text, _keep, max_bytes)


def cut_rendered(text: str, render: Callable[[str], str], max_bytes: int) -> str:
    """Return `render(text)`, or of the longest beginning that fits, with an ellipsis; empty where not even that fits.

    The plain text is cut and rendered again, so that an escape or a link is whole or absent. A longer text must not
    render to fewer bytes.
    """
    rendered = render(text)
    if byte_length(rendered) <= max_bytes:
        return rendered
    fits, fails = -1, len(text)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if byte_length(render(text[:middle] + CUT)) <= max_bytes:
            fits = middle
        else:
            fails = middle
    return "" if fits < 0 else render(text[:fits] + CUT)


def join_lines(lines: Sequence[tuple[str, Callable[[str], str]]], tail: str, max_bytes: int) -> str:
    """Join lines, each given as plain text with the function that renders it, and end with `tail`.

    The tail is always whole. Of the lines, those that fit are taken in order; the first one that does not is cut, and
    the others are left out.
    """
    left = max_bytes - byte_length(tail)
    joined: list[str] = []
    for text, render in lines:
        free_bytes = left - (1 if tail else 0)
        rendered = cut_rendered(text, render, free_bytes)
        if rendered:
            joined.append(rendered)
            left -= byte_length(rendered) + 1
        if rendered != render(text):
            break
    return "\n".join([*joined, tail] if tail else joined)


def byte_length(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _keep(text: str) -> str:
    return text
