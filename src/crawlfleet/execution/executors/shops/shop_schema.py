"""JSON schemas of the shop family's parameters, in a module of their own as every process loads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.crawl.parse.extract.limits import NAME, SELECTOR_CHARS
from crawlfleet.execution.crawl.schemas.extract import DEFS
from crawlfleet.execution.crawl.schemas.fetch import fetch_properties
from crawlfleet.execution.crawl.schemas.follow import PATTERN, follow_properties
from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.model.product import ID_CHARS

URLS_MAX = 10_000
KEYWORDS_MAX = 200
DEFAULT_BATCH_SIZE = 10
INSTANT = {"type": "integer", "minimum": 0, "maximum": (1 << 53) - 1}

SHOP_SELECTORS: dict[str, Any] = {
    "type": "object",
    "description": "where a page without structured data shows its product: title, price, id, currency, ...",
    "minProperties": 1,
    "maxProperties": 50,
    "propertyNames": {"pattern": NAME, "description": "a name of 1 to 64 characters that does not begin with _"},
    "properties": {"product": {"type": "string", "minLength": 1, "maxLength": SELECTOR_CHARS}},
    "additionalProperties": {"$ref": "#/$defs/field"},
}
_VISITS: dict[str, Any] = {
    "selectors": SHOP_SELECTORS,
    "respect_robots": {"type": "boolean"},
    "user_agent": {
        "type": "string",
        "description": "1 to 300 printable ASCII characters",
        "pattern": r"^[\x21-\x7e][\x20-\x7e]{0,299}$",
    },
    **fetch_properties(),
}
_CRAWLS: dict[str, Any] = {
    "depth": {"type": "integer", "minimum": 0, "maximum": 1_000},
    "max_pages": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
    "max_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 30 * 86_400},
    "product_pages": {
        "type": "array",
        "description": "patterns: only URLs in which one of them is found are read as products",
        "minItems": 1,
        "maxItems": 100,
        "items": PATTERN,
    },
    "delay_s": {"type": "number", "minimum": 0, "maximum": 3_600},
    "concurrency": {"type": "integer", "minimum": 1, "maximum": 64},
    **follow_properties(URL),
}
PRODUCT_ID = {"type": "string", "minLength": 1, "maxLength": ID_CHARS}
URLS = {"type": "array", "items": URL, "minItems": 1, "maxItems": URLS_MAX}
BATCH_SIZE = {"type": "integer", "minimum": 1, "maximum": 1_000}
KEYWORDS = {
    "type": "array",
    "minItems": 1,
    "maxItems": KEYWORDS_MAX,
    "items": {"type": "string", "minLength": 1, "maxLength": 200},
}
SEARCH_URL = {**URL, "description": "the URL of a search, with {keyword} where the word stands"}
VISIT_NAMES = tuple(_VISITS)
CRAWL_NAMES = tuple(_CRAWLS)


def visit_schema(*required: str, **more: Any) -> dict[str, Any]:
    """The schema of a type that visits pages by their URLs."""
    return _build_schema({**_VISITS, **more}, required)


def crawl_schema(*required: str, **more: Any) -> dict[str, Any]:
    """The schema of a type that follows links."""
    return _build_schema({**_VISITS, **_CRAWLS, **more}, required)


def _build_schema(properties: Mapping[str, Any], required: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
        "$defs": DEFS,
    }
