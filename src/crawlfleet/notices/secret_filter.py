"""Removes the secrets of a channel from text that is stored, shown or logged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

HIDDEN = "***"
_LEAST_CHARS = 6
"""Shorter pieces of an address are no secrets, and hiding them would make any text unreadable."""


class SecretFilter:
    """Replaces every spelling of some secrets: as they are, quoted for a URL, or escaped for JSON."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings: set[str] = set()
        for secret in secrets:
            for piece in (secret, *_address_secrets(secret)):
                if piece:
                    escaped = json.dumps(piece)[1:-1]
                    spellings |= {piece, quote(piece), quote(piece, safe=""), quote_plus(piece), escaped}
        # The longest first: a secret may be a part of another one.
        self._spellings = sorted(spellings, key=len, reverse=True)

    def hide(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, HIDDEN)
        return text


def _address_secrets(secret: str) -> list[str]:
    """Return the parts of an address that prove who sends: its path, each part of it, its parameters, its user."""
    if "://" not in secret:
        return []
    try:
        parts = urlsplit(secret)
    except ValueError:
        return []
    pieces = [parts.path, *parts.path.split("/"), parts.query, *(value for _, value in parse_qsl(parts.query))]
    pieces += [parts.username or "", parts.password or ""]
    return [piece for piece in pieces if len(piece) >= _LEAST_CHARS and piece not in _PUBLIC_PIECES]


_PUBLIC_PIECES = {"/robot/send", "/cgi-bin/webhook/send", "/robot", "webhook", "cgi-bin", "open-apis", "services"}
