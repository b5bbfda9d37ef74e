"""The table of all nasty behaviours, for tests and for the documentation."""

from __future__ import annotations

from testkit.site.nasty import (
    answers,
    bodies,
    charsets,
    content_types,
    encodings,
    markup,
    redirects,
    refusals,
    robots,
    sessions,
    sitemaps,
    stalls,
    traps,
)
from testkit.site.nasty.behaviour import PREFIX, Behaviour, Family, ok

FAMILIES: tuple[Family, ...] = (
    refusals.FAMILY,
    stalls.FAMILY,
    bodies.FAMILY,
    encodings.FAMILY,
    content_types.FAMILY,
    charsets.FAMILY,
    markup.FAMILY,
    redirects.FAMILY,
    sessions.FAMILY,
    traps.FAMILY,
    answers.FAMILY,
    sitemaps.FAMILY,
    robots.FAMILY,
)
BEHAVIOURS: tuple[Behaviour, ...] = tuple(it for family in FAMILIES for it in family.behaviours)


def _index() -> bytes:
    rows = "".join(f'<li><a href="{it.path}">{it.path}</a>: {it.does}</li>' for it in BEHAVIOURS)
    return ok("Nasty things", f"<ul>{rows}</ul>")


_INDEX = Behaviour(PREFIX, "links to all of them", "comes here only when it is sent", lambda _: _index())
_BY_PATH = {it.path: it for it in BEHAVIOURS}


def find_behaviour(path: str) -> Behaviour | None:
    """Return the behaviour with the longest path that is a prefix of this one."""
    if not path.startswith(PREFIX):
        return None
    if path == PREFIX:
        return _INDEX
    while path.count("/") > 2:
        if (behaviour := _BY_PATH.get(path)) is not None:
            return behaviour
        path = path.rpartition("/")[0]
    return None


def is_trap(path: str) -> bool:
    return path.startswith(f"{PREFIX}{traps.FAMILY.name}/")


def as_markdown() -> str:
    """Write a table for each family, for the documentation."""
    parts = []
    for family in FAMILIES:
        rows = [f"| `{it.path}` | {_cell(it.does)} | {_cell(it.good)} |" for it in family.behaviours]
        parts.append(
            "\n".join([f"### {family.name}", "", "| path | what it does | a good crawler |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
