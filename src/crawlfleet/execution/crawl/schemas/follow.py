"""The JSON schema of the parameters for what a crawl follows.

It stands apart from the code that uses them: every process lists the task types, only one that crawls needs the engine.
"""

from __future__ import annotations

from typing import Any

PATTERN = {"type": "string", "minLength": 1, "maxLength": 1_000}
CAP = {"type": "integer", "minimum": 1, "maximum": 1_000_000}
SELECTOR = {"type": "string", "minLength": 1, "maxLength": 500}


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def follow_properties(url: dict[str, Any]) -> dict[str, Any]:
    """Return the properties; `url` is the schema of a URL."""
    deeper = {
        **_object_schema(pattern=PATTERN, depth={"type": "integer", "minimum": 0, "maximum": 1_000}),
        "required": ["pattern"],
    }
    return {
        "follow": _object_schema(
            scope={"enum": ["host", "subdomains", "domain", "any"]},
            hosts={
                "type": "array",
                "maxItems": 1_000,
                "items": {
                    "type": "string",
                    "maxLength": 260,
                    "pattern": r"^(\*\.)?[^\s/?#@*]+$",
                    "description": "the name of a host, or *.name for all below it",
                },
            },
            allow={"type": "array", "maxItems": 200, "items": {"anyOf": [PATTERN, deeper]}},
            deny={"type": "array", "maxItems": 200, "items": PATTERN},
            obey_nofollow={"type": "boolean"},
            obey_canonical={"type": "boolean"},
            skip_files={
                "anyOf": [
                    {"type": "boolean"},
                    {
                        "type": "array",
                        "maxItems": 200,
                        "items": {
                            "type": "string",
                            "pattern": r"^\.?[A-Za-z0-9]{1,10}$",
                            "description": "the ending of a file, such as pdf",
                        },
                    },
                ]
            },
        ),
        "normalise": _object_schema(
            strip_tracking={"type": "boolean"},
            strip_sessions={"type": "boolean"},
            sort_query={"type": "boolean"},
            strip={
                "type": "array",
                "maxItems": 100,
                "items": {
                    "type": "string",
                    "maxLength": 100,
                    "pattern": r"^[^\s=&?#*]+\*?$",
                    "description": "the name of a parameter, or its beginning and a *",
                },
            },
        ),
        "traps": {
            "anyOf": [
                {"type": "boolean"},
                _object_schema(
                    length={"type": "integer", "minimum": 20, "maximum": 4_096},
                    segments={"type": "integer", "minimum": 1, "maximum": 1_000},
                    repeats={"type": "integer", "minimum": 2, "maximum": 1_000},
                    session=CAP,
                    calendar=CAP,
                    query=CAP,
                    id=CAP,
                    pattern=CAP,
                    hosts=CAP,
                ),
            ]
        },
        "sitemaps": {"anyOf": [{"type": "boolean"}, {"type": "array", "minItems": 1, "maxItems": 1_000, "items": url}]},
        "pagination": {
            **_object_schema(
                rel_next={"type": "boolean"},
                selector=SELECTOR,
                template={**url, "description": "a URL with {page} where the number of the page stands"},
                first={"type": "integer", "minimum": 0, "maximum": 1_000_000},
                last={"type": "integer", "minimum": 0, "maximum": 1_000_000},
                most={"type": "integer", "minimum": 1, "maximum": 100_000},
                **{"while": SELECTOR},
            ),
            "minProperties": 1,
        },
    }
