"""The JSON schema of the extraction parameters of `web_crawl`.

Wherever two forms are accepted, each keyword applies to one of them only: the error of `anyOf` would only be that none
of them fits.
"""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.crawl.parse.extract.limits import (
    MAX_FIELDS,
    NAME,
    PAGE_PARTS,
    PATTERN_CHARS,
    SELECTOR_CHARS,
    TYPES,
)

_SELECTOR = {"type": "string", "minLength": 1, "maxLength": SELECTOR_CHARS}
_EXPRESSION = {"type": "string", "minLength": 1, "maxLength": 1_000}
_NAMES = {"pattern": NAME, "description": "a name of 1 to 64 characters without spaces that does not begin with _"}

SELECTORS: dict[str, Any] = {
    "type": "object",
    "description": "names and selectors, CSS or XPath; the one whose matches contain the others is the record",
    "minProperties": 1,
    "maxProperties": 50,
    # Names that begin with _ are reserved: _url is the page of an item.
    "propertyNames": _NAMES,
    "additionalProperties": _SELECTOR,
}
PAGE: dict[str, Any] = {
    "type": "array",
    "description": "what of the page itself becomes an item",
    "minItems": 1,
    "uniqueItems": True,
    "items": {"enum": list(PAGE_PARTS)},
}
EXTRACT: dict[str, Any] = {
    "type": "object",
    "description": "containers by the key they have in the result",
    "minProperties": 1,
    "maxProperties": 20,
    "propertyNames": _NAMES,
    "additionalProperties": {
        "type": "object",
        "required": ["fields"],
        "properties": {
            "container": _SELECTOR,
            "json": _EXPRESSION,
            "script": _SELECTOR,
            "required": {"type": "boolean"},
            "fields": {"$ref": "#/$defs/fields"},
        },
        "additionalProperties": False,
    },
}
DEFS: dict[str, Any] = {
    "fields": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_FIELDS,
        "propertyNames": _NAMES,
        "additionalProperties": {"$ref": "#/$defs/field"},
    },
    "field": {
        "type": ["string", "object"],
        "description": "a selector (in a json container an expression), a field in full, or a nested container",
        "minLength": 1,
        "maxLength": 1_000,
        "properties": {
            "selector": _SELECTOR,
            "json": _EXPRESSION,
            "attribute": {"type": "string", "minLength": 1, "maxLength": 100},
            "all": {"type": "boolean"},
            "regex": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARS},
            "type": {"enum": list(TYPES)},
            "currency": {"type": "string", "minLength": 1, "maxLength": 10},
            "decimal": {"enum": [".", ","]},
            "day_first": {"type": "boolean"},
            "default": {"type": ["string", "number", "boolean", "null"], "maxLength": 1_000},
            "required": {"type": "boolean"},
            "container": _SELECTOR,
            "fields": {"$ref": "#/$defs/fields"},
        },
        "additionalProperties": False,
    },
}
