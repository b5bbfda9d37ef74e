"""The words and bounds of the form, apart from what reads it: every process lists the schema, few compile a plan."""

from __future__ import annotations

TYPES = ("text", "html", "url", "price", "number", "integer", "date", "boolean")
PAGE_PARTS = ("text", "markdown", "metadata", "structured", "links")
NAME = r"^[^_\s]\S{0,63}$"
FIELDS_MOST = 200
"""Of all containers together."""
NESTING_MOST = 4
SELECTOR_CHARS = 500
PATTERN_CHARS = 500
