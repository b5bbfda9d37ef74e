"""Masks secrets in log lines: passwords in addresses, and values that a name before them marks as secret.

No line is meant to have one. Error messages of libraries quote addresses and headers, though, so that every line is
masked before it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/?#@:\"']*):[^\s/?#\"']*@", re.IGNORECASE)
_BARE_USER = re.compile(r"(\bhttps?://)[^\s/?#@:\"']+@", re.IGNORECASE)
_NAMED = re.compile(
    r"""(?ix)
    (?P<name> \b (?: [a-z0-9_-]* (?: password | passwd | secret | token | api[_-]?key | access[_-]?key | signature )
        | sign ) ["']? \s* [=:] \s* ["']? )
    (?P<value> [^\s"'&;)\]}/.] [^\s"'&;)\]}]{5,} )
    """
)
_SCHEME = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9+/=._~-]{8,}")
_COOKIE = re.compile(r"""(?i)\b((?:set-)?cookie["']?\s*[=:]\s*["']?)[^\s"'][^\r\n"']*""")
_PLAIN = (bool, int, float, type(None))


def mask_secrets(text: str) -> str:
    """Return the text with `***` in place of secrets."""
    if "://" in text:
        text = _BARE_USER.sub(rf"\1{MASK}@", _PASSWORD.sub(rf"\1:{MASK}@", text))
    text = _COOKIE.sub(rf"\1{MASK}", _SCHEME.sub(rf"\1 {MASK}", text))
    return _NAMED.sub(rf"\g<name>{MASK}", text)


def mask_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Return named values, and the values in them, without secrets; the names count as well."""
    return {str(name): _mask_field(str(name), value) for name, value in fields.items()}


def _mask_field(name: str, value: object) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return mask_fields(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_mask_field(name, each) for each in value]
    text = value if isinstance(value, str) else repr(value)
    return mask_secrets(f"{name}={text}").removeprefix(f"{name}=")
