"""One HTTP request, exactly as a test wants it sent, and everything that came back."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[int, str, str | None]:
        """Status, code and field of a problem; fails for an answer that is none."""
        assert self.headers["Content-Type"] == PROBLEM, f"{self.status} {self.body[:500]!r}"
        said = self.json
        assert said["status"] == self.status
        assert said["detail"]
        return self.status, said["code"], said.get("field")


async def call(
    url: str,
    method: str,
    path: str,
    *,
    token: str = "",
    address: str | None = None,
    headers: Mapping[str, str] | None = None,
    data: Any = None,
    **sent: Any,
) -> Answer:
    """The path goes out as it is written, dots and all. `address` is where the call comes from."""
    if isinstance(data, bytes):
        data = io.BytesIO(data)
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(local_addr=(address, 0) if address else None)
    async with (
        aiohttp.ClientSession(connector=connector, headers={**bearer, **(headers or {})}) as session,
        session.request(
            method, URL(f"{url}{path}", encoded=True), allow_redirects=False, data=data, **sent
        ) as response,
    ):
        return Answer(response.status, dict(response.headers), await response.read())
