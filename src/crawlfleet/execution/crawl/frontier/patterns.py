"""URL patterns of users are matched in linear time (RE2): whatever users write, no URL can hang the crawl."""

from __future__ import annotations

from collections.abc import Sequence

import re2  # type: ignore[import-untyped]

PATTERN_BYTES = 8 << 20
"""Limit on the memory of the compiled form of all patterns of one list together."""


class BadRule(Exception):
    """Raised for a parameter that has the right shape and a wrong meaning."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


class Patterns:
    """A set of patterns that is matched in one pass."""

    def __init__(self, patterns: Sequence[str], fields: Sequence[str]) -> None:
        """Compile the patterns. Raises BadRule with the field of the first pattern that cannot be used."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = PATTERN_BYTES
        self._pattern_set = re2.Set.SearchSet(options)
        for pattern, field in zip(patterns, fields, strict=True):
            self._add_pattern(pattern, field, options)
        self._count = len(patterns)
        if patterns:
            try:
                # A set that did not compile must not be matched: the library would crash.
                self._pattern_set.Compile()
            except re2.error as exc:
                raise BadRule(fields[0].partition("[")[0], "the patterns are too large together") from exc

    def _add_pattern(self, pattern: str, field: str, options: re2.Options) -> None:
        try:
            re2.compile(pattern, options)
            self._pattern_set.Add(pattern)
        except (re2.error, UnicodeEncodeError) as exc:
            raise BadRule(field, f"{pattern!r} cannot be used: {_error_reason(exc, pattern)}") from exc

    def __bool__(self) -> bool:
        return self._count > 0

    def matching_indexes(self, text: str) -> list[int]:
        """Return the indexes of the patterns that occur anywhere in the text."""
        return (self._pattern_set.Match(text) or []) if self._count else []


def _error_reason(exc: Exception, pattern: str) -> str:
    message = exc.args[0] if exc.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    part = text.rpartition(": ")[2]
    if part and part in pattern:
        text = f"{text} at position {pattern.index(part)}"
    if "(?" in text:
        return f"{text} (look-around and back-references need unbounded time)"
    return text or "it is no regular expression"
