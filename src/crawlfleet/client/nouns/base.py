"""The base class of the calls of every noun."""

from __future__ import annotations

from urllib.parse import quote

from crawlfleet.client.transport.http import Transport
from crawlfleet.errors import InvalidInput


class Calls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


def quote_segment(text: object) -> str:
    """Quote a name for use in a path, whatever characters it has."""
    try:
        return quote(str(text), safe="")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{text!r} is no valid Unicode") from exc
