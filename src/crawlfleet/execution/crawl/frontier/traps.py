"""Trap guards limit sites without an end: calendars, sessions in URLs, repeating paths, combined filters.

A guard looks at the shape of a URL: its path with numbers, dates and tokens replaced, and the names in its query. URLs
of one shape are let in up to a cap. The caps are wide: a shop has thousands of products and hundreds of pages of
listings, and must be crawled completely; a calendar has as many pages as there are days.

    length      a URL longer than any page's
    segments    a path with more parts than any page's: it grows with every step
    repeats     the same parts again and again: a wrong relative link, followed for ever
    session     URLs of one shape that carry a session id
    calendar    URLs of one shape that carry a date
    query       URLs of one path with three names or more in their query: combined filters
    id          URLs of one shape that carry an id that looks random
    pattern     URLs of one shape with any number in it, or a query; or else of one directory
    hosts       number of hosts: there are sites that make one up for every link
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice

PATTERNS = 20_000
"""Limit on shapes that are counted; beyond it, the shapes with few URLs are forgotten."""
NOTED = 5
COMBINED = 3
_DIGITS = re.compile(r"\d+")
_LONG = re.compile(r"[0-9a-fA-F]{8}|[A-Za-z0-9]{16}")
_IDS = re.compile(
    # A UUID; letters and digits that are too long, or too hexadecimal, for a word; a number.
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?<![A-Za-z0-9])(?=[A-Za-z]{0,40}\d)(?=\d{0,40}[A-Za-z])(?:[A-Za-z0-9]{16,}|[0-9a-fA-F]{8,}(?![A-Za-z0-9]))"
    r"|(\d+)"
)
# A year and a month, one after the other: 2026/11, 2026-11-16, 11/2026.
_DATED = re.compile(
    r"(?<!\d)(?:19|20|21)\d\d[-_./](?:0?[1-9]|1[0-2])(?!\d)|(?<!\d)(?:0?[1-9]|1[0-2])[-_./](?:19|20|21)\d\d(?!\d)"
)
_DATED_NAMES = frozenset(
    ("year", "month", "day", "date", "week", "yr", "mon", "cal", "calendar", "ical", "tribe-bar-date")
)
_SESSION = re.compile(r"(?i)(?:^|&)(?:[a-z_-]*sess[a-z_-]*|[a-z_-]*sid|[a-z_-]*token|nonce|csrf[a-z_-]*)=[^&]{12,}")
_SESSION_PATH = re.compile(
    r"(?i)(/(?:s|sid|sess|sessions?|sessionid)[/=-]|;[a-z_]*(?:sess|sid)[a-z_]*=)(?=[a-z]*\d)([a-z0-9]{8,})(?=/|$)"
)
_NUMBER = re.compile(r"[\d.,-]+")


@dataclass(frozen=True, slots=True)
class Caps:
    length: int = 2_000
    segments: int = 20
    repeats: int = 3
    """Limit on occurrences of one part of a path; a run of the same parts has to occur fewer times than that."""
    session: int = 100
    calendar: int = 500
    query: int = 1_000
    id: int = 50_000
    pattern: int = 200_000
    hosts: int = 10_000


@dataclass(slots=True)
class _Shape:
    taken: int = 0
    dated: int = 0
    sessions: int = 0


class Traps:
    """The trap guards of one crawl. Every URL is passed to them once, when it is found."""

    def __init__(self, caps: Caps | None = None, *, most_patterns: int = PATTERNS) -> None:
        self._caps = caps or Caps()
        self._most = most_patterns
        self._shapes: dict[str, _Shape] = {}
        self._combined: dict[str, int] = {}
        self._hosts: set[str] = set()
        self.refused: Counter[str] = Counter()
        """Number of refused URLs per guard."""
        self._like: dict[str, Counter[str]] = {}

    def refusal(self, url: str) -> str | None:
        """Return the guard that refuses a URL, and count it; None when the URL may pass, which counts for its shape."""
        head, _, query = url.partition("?")
        start = head.find("/", 8)
        path = head[start:]
        guard = self._endless(url, path)
        if guard is not None:
            return self._refuse(guard, path)
        if head[:start] not in self._hosts:
            if len(self._hosts) >= self._caps.hosts:
                return self._refuse("hosts", head[:start])
            self._hosts.add(head[:start])
        has_session = len(query) > 12 and _SESSION.search(query) is not None
        if ("/s" in path or "/S" in path or ";" in path) and _SESSION_PATH.search(path) is not None:
            has_session, path = True, _SESSION_PATH.sub(r"\1{id}", path)
        path_shape = _shape(path)
        if path_shape == path and not query and not has_session:
            path_shape = f"{path.rpartition('/')[0]}/*"
        where = head[:start] + path_shape
        names = _names(query)
        key = f"{where}?{'&'.join(names)}" if names else where
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape()
            self._make_room()
        is_dated = _is_dated(path, path_shape, names)
        guard = self._full(shape, where, len(names), is_dated=is_dated, has_session=has_session)
        if guard is not None:
            return self._refuse(guard, key[start:])
        shape.taken += 1
        shape.dated += is_dated
        shape.sessions += has_session
        if len(names) >= COMBINED:
            self._combined[where] = self._combined.get(where, 0) + 1
        return None

    def notes(self) -> list[str]:
        """Return sentences for people to read: which guard left out how many URLs, of which shape, and at which cap."""
        told = []
        for guard, count in self.refused.most_common(NOTED):
            example, _ = self._like[guard].most_common(1)[0]
            shapes = len(self._like[guard])
            others = f" and {shapes - 1} more patterns" if shapes > 1 else ""
            told.append(f"trap: {count:,} URLs like {example}{others} were left out{self._why(guard)}")
        return told

    def _why(self, guard: str) -> str:
        match guard:
            case "length":
                return f": longer than {self._caps.length:,} characters"
            case "segments":
                return f": more than {self._caps.segments} parts in the path"
            case "repeats":
                return ": the same parts of the path again and again"
            case _:
                return f" after {getattr(self._caps, guard):,} ({guard})"

    def _endless(self, url: str, path: str) -> str | None:
        if len(url) > self._caps.length:
            return "length"
        parts = path.split("/")
        if len(parts) - 1 > self._caps.segments:
            return "segments"
        if len(set(parts)) < len(parts):
            words = [part for part in parts if part and not _NUMBER.fullmatch(part)]
            if words and _repeats(words, self._caps.repeats):
                return "repeats"
        return None

    def _full(self, shape: _Shape, where: str, names: int, *, is_dated: bool, has_session: bool) -> str | None:
        caps = self._caps
        # A few dates among other numbers make no calendar: most URLs of this shape must carry one.
        if is_dated and shape.dated >= caps.calendar and shape.dated * 5 >= shape.taken * 4:
            return "calendar"
        if has_session and shape.sessions >= caps.session:
            return "session"
        if names >= COMBINED and self._combined.get(where, 0) >= caps.query:
            return "query"
        if shape.taken >= caps.id and "{id}" in where:
            return "id"
        return "pattern" if shape.taken >= caps.pattern else None

    def _refuse(self, guard: str, like: str) -> str:
        self.refused[guard] += 1
        examples = self._like.setdefault(guard, Counter())
        like = like if len(like) <= 120 else f"{like[:117]}..."
        if like in examples or len(examples) < 1_000:
            examples[like] += 1
        return guard

    def _make_room(self) -> None:
        if len(self._shapes) <= self._most:
            return
        # The half with the most URLs stays: a trap has many URLs of few shapes.
        kept = sorted(self._shapes.items(), key=lambda entry: -entry[1].taken)
        self._shapes = dict(islice(kept, self._most // 2))
        self._combined = dict(sorted(self._combined.items(), key=lambda entry: -entry[1])[: self._most // 2])


def _shape(path: str) -> str:
    """Return a path with counting numbers and random ids replaced."""
    shape = _DIGITS.sub("{n}", path)
    # Most paths have no part that could be an id, and the full pattern costs ten times as much.
    if shape == path or _LONG.search(path) is None:
        return shape
    return _IDS.sub(lambda found: "{n}" if found[1] else "{id}", path)


def _names(query: str) -> list[str]:
    if "&" not in query:
        return [query.partition("=")[0]] if query else []
    return sorted([part.partition("=")[0] for part in query.split("&")])


def _is_dated(path: str, shape: str, names: list[str]) -> bool:
    if names and not _DATED_NAMES.isdisjoint(names):
        return True
    return shape.count("{") > 1 and _DATED.search(path) is not None


def _repeats(words: list[str], most: int) -> bool:
    """Return whether a word occurs more than `most` times, or a run of words `most` times in succession."""
    if max(Counter(words).values()) > most:
        return True
    for length in range(1, len(words) // most + 1):
        run = 0
        for at in range(length, len(words)):
            run = run + 1 if words[at] == words[at - length] else 0
            if run >= length * (most - 1):
                return True
    return False
