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

MAX_SHAPES = 20_000
"""Limit on shapes that are counted; beyond it, the shapes with few URLs are forgotten."""
MAX_NOTES = 5
COMBINED_NAMES = 3
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
class TrapLimits:
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
    accepted: int = 0
    dated: int = 0
    sessions: int = 0


class TrapGuards:
    """The trap guards of one crawl. Every URL is passed to them once, when it is found."""

    def __init__(self, limits: TrapLimits | None = None, *, max_shapes: int = MAX_SHAPES) -> None:
        self._limits = limits or TrapLimits()
        self._max_shapes = max_shapes
        self._shapes: dict[str, _Shape] = {}
        self._combined: dict[str, int] = {}
        self._hosts: set[str] = set()
        self.refused: Counter[str] = Counter()
        """Number of refused URLs per guard."""
        self._examples: dict[str, Counter[str]] = {}

    def refusing_guard(self, url: str) -> str | None:
        """Return the guard that refuses a URL, and count it; None when the URL may pass, which counts for its shape."""
        head, _, query = url.partition("?")
        start = head.find("/", 8)
        path = head[start:]
        guard = self._check_path(url, path)
        if guard is not None:
            return self._count_refusal(guard, path)
        if head[:start] not in self._hosts:
            if len(self._hosts) >= self._limits.hosts:
                return self._count_refusal("hosts", head[:start])
            self._hosts.add(head[:start])
        has_session = len(query) > 12 and _SESSION.search(query) is not None
        if ("/s" in path or "/S" in path or ";" in path) and _SESSION_PATH.search(path) is not None:
            has_session, path = True, _SESSION_PATH.sub(r"\1{id}", path)
        path_shape = _path_shape(path)
        if path_shape == path and not query and not has_session:
            path_shape = f"{path.rpartition('/')[0]}/*"
        host_and_shape = head[:start] + path_shape
        names = _query_names(query)
        key = f"{host_and_shape}?{'&'.join(names)}" if names else host_and_shape
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape()
            self._drop_rare_shapes()
        is_dated = _is_dated(path, path_shape, names)
        guard = self._check_counts(shape, host_and_shape, len(names), is_dated=is_dated, has_session=has_session)
        if guard is not None:
            return self._count_refusal(guard, key[start:])
        shape.accepted += 1
        shape.dated += is_dated
        shape.sessions += has_session
        if len(names) >= COMBINED_NAMES:
            self._combined[host_and_shape] = self._combined.get(host_and_shape, 0) + 1
        return None

    def describe_refusals(self) -> list[str]:
        """Return sentences for people to read: which guard left out how many URLs, of which shape, and at which cap."""
        sentences = []
        for guard, count in self.refused.most_common(MAX_NOTES):
            example, _ = self._examples[guard].most_common(1)[0]
            shapes = len(self._examples[guard])
            others = f" and {shapes - 1} more patterns" if shapes > 1 else ""
            sentences.append(f"trap: {count:,} URLs like {example}{others} were left out{self._describe_limit(guard)}")
        return sentences

    def _describe_limit(self, guard: str) -> str:
        match guard:
            case "length":
                return f": longer than {self._limits.length:,} characters"
            case "segments":
                return f": more than {self._limits.segments} parts in the path"
            case "repeats":
                return ": the same parts of the path again and again"
            case _:
                return f" after {getattr(self._limits, guard):,} ({guard})"

    def _check_path(self, url: str, path: str) -> str | None:
        if len(url) > self._limits.length:
            return "length"
        parts = path.split("/")
        if len(parts) - 1 > self._limits.segments:
            return "segments"
        if len(set(parts)) < len(parts):
            words = [part for part in parts if part and not _NUMBER.fullmatch(part)]
            if words and _has_repeats(words, self._limits.repeats):
                return "repeats"
        return None

    def _check_counts(
        self, shape: _Shape, host_and_shape: str, name_count: int, *, is_dated: bool, has_session: bool
    ) -> str | None:
        limits = self._limits
        # A few dates among other numbers make no calendar: most URLs of this shape must carry one.
        if is_dated and shape.dated >= limits.calendar and shape.dated * 5 >= shape.accepted * 4:
            return "calendar"
        if has_session and shape.sessions >= limits.session:
            return "session"
        if name_count >= COMBINED_NAMES and self._combined.get(host_and_shape, 0) >= limits.query:
            return "query"
        if shape.accepted >= limits.id and "{id}" in host_and_shape:
            return "id"
        return "pattern" if shape.accepted >= limits.pattern else None

    def _count_refusal(self, guard: str, example: str) -> str:
        self.refused[guard] += 1
        examples = self._examples.setdefault(guard, Counter())
        example = example if len(example) <= 120 else f"{example[:117]}..."
        if example in examples or len(examples) < 1_000:
            examples[example] += 1
        return guard

    def _drop_rare_shapes(self) -> None:
        if len(self._shapes) <= self._max_shapes:
            return
        # The half with the most URLs stays: a trap has many URLs of few shapes.
        most_frequent = sorted(self._shapes.items(), key=lambda entry: -entry[1].accepted)
        self._shapes = dict(islice(most_frequent, self._max_shapes // 2))
        self._combined = dict(sorted(self._combined.items(), key=lambda entry: -entry[1])[: self._max_shapes // 2])


def _path_shape(path: str) -> str:
    """Return a path with counting numbers and random ids replaced."""
    shape = _DIGITS.sub("{n}", path)
    # Most paths have no part that could be an id, and the full pattern costs ten times as much.
    if shape == path or _LONG.search(path) is None:
        return shape
    return _IDS.sub(lambda match: "{n}" if match[1] else "{id}", path)


def _query_names(query: str) -> list[str]:
    if "&" not in query:
        return [query.partition("=")[0]] if query else []
    return sorted([part.partition("=")[0] for part in query.split("&")])


def _is_dated(path: str, shape: str, names: list[str]) -> bool:
    if names and not _DATED_NAMES.isdisjoint(names):
        return True
    return shape.count("{") > 1 and _DATED.search(path) is not None


def _has_repeats(words: list[str], max_repeats: int) -> bool:
    """Return whether a word occurs more than `max_repeats` times.

    A run of words counts as well, when it occurs `max_repeats` times in succession.
    """
    if max(Counter(words).values()) > max_repeats:
        return True
    for length in range(1, len(words) // max_repeats + 1):
        run = 0
        for index in range(length, len(words)):
            run = run + 1 if words[index] == words[index - length] else 0
            if run >= length * (max_repeats - 1):
                return True
    return False
