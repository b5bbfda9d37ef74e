"""What every noun's calls stand on."""

from __future__ import annotations

from urllib.parse import quote

from crawlfleet.client.transport import Transport


class Calls:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport


def part(text: object) -> str:
    """A name in a path, whatever it is made of."""
    return quote(str(text), safe="")
