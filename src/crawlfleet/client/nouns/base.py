"""What every noun's calls stand on."""

from __future__ import annotations

from urllib.parse import quote

from crawlfleet.client.transport.http import Transport
from crawlfleet.errors import InvalidInput


class Calls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


def part(text: object) -> str:
    """A name in a path, whatever it is made of."""
    try:
        return quote(str(text), safe="")
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{text!r} is no valid Unicode") from exc
