"""The JSON schema of the parameters for fetching pages; it stands apart from the code that uses them."""

from __future__ import annotations

from typing import Any

PROFILE_NAMES = ["crawlfleet", "chrome", "firefox", "safari", "mobile"]
_PROFILE = {"enum": PROFILE_NAMES}
_PROXIES = {
    "type": "array",
    "minItems": 1,
    "maxItems": 1_000,
    "items": {
        "type": "string",
        "maxLength": 1_000,
        "description": "http://[user:password@]host:port",
        "pattern": r"^https?://([^/?#\s@]*@)?[^/?#\s@:]+(:[0-9]{1,5})?/?$",
    },
}
_ROTATION = {"enum": ["request", "host", "session"]}


def _object_schema(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


def fetch_properties() -> dict[str, Any]:
    return {
        "profile": {"anyOf": [_PROFILE, {"type": "array", "minItems": 1, "maxItems": 10, "items": _PROFILE}]},
        "headers": {"type": "object", "maxProperties": 50, "additionalProperties": {"type": "string"}},
        "proxies": {
            "anyOf": [
                _PROXIES,
                _object_schema("urls", urls=_PROXIES, rotation=_ROTATION),
                _object_schema("pool", pool={"type": "string", "minLength": 1, "maxLength": 100}, rotation=_ROTATION),
            ]
        },
        "keep_cookies": {
            "anyOf": [
                {"type": "boolean"},
                {
                    "type": "string",
                    "description": "true, or the name of a cookie jar: letters, digits, . _ -, up to 64",
                    "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
                },
            ]
        },
        "wait_for_host_s": {"type": "number", "minimum": 0, "maximum": 3_600},
    }
