"""Names and limits of the extraction form.

They stand apart from the code that compiles it: every process lists the schema, few compile a plan.
"""

from __future__ import annotations

TYPES = ("text", "html", "url", "price", "number", "integer", "date", "boolean")
PAGE_PARTS = ("text", "markdown", "metadata", "structured", "links")
NAME = r"^[^_\s]\S{0,63}$"
MAX_FIELDS = 200
"""Limit on fields of all containers together."""
MAX_NESTING = 4
SELECTOR_CHARS = 500
PATTERN_CHARS = 500
