"""The nasty site as a process of its own: the work of the test does not delay the times in its log."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp

_STARTS_S = 60.0
_HELD_S = 60.0


class SiteProcess:
    """The test's side: the site's own list, its log and its switches, accessed over HTTP."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    async def pages(self, **rules: bool) -> list[str]:
        """Return the site's own list, under the rules named (see `testkit.site.Rules`)."""
        listed: list[str] = await self._call("pages", **{name: int(value) for name, value in rules.items()})
        return listed

    async def items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = await self._call("items")
        return items

    async def log(self, **which: Any) -> dict[str, Any]:
        """Return requests and figures of them, selected by `under`, `host` and `since`."""
        answer: dict[str, Any] = await self._call("log", **which)
        return answer

    async def clear(self) -> None:
        await self._call("clear")

    async def set(self, **values: Any) -> dict[str, Any]:
        """Set `version`, `robots` or `most_per_second`."""
        answer: dict[str, Any] = await self._call("set", **values)
        return answer

    async def changes(self, before: int, after: int) -> dict[str, list[str]]:
        answer: dict[str, list[str]] = await self._call("changes", before=before, after=after)
        return answer

    async def hold(self, pattern: str = "", *, after: int = 0) -> None:
        """Hold back pages whose path and query match, beyond the next `after` of them, until `release`."""
        await self._call("hold", pattern=pattern, after=after)

    async def held(self, pattern: str | None = None) -> int:
        """Return how many requests are held now, for one pattern or for all."""
        return int((await self._call("held", **_given(pattern)))["held"])

    async def wait_held(self, count: int = 1, pattern: str | None = None, within_s: float = _HELD_S) -> None:
        """Wait until at least `count` requests are held at the same time."""
        async with asyncio.timeout(within_s):
            await self._call("wait-held", count=count, **_given(pattern))

    async def release(self, pattern: str | None = None) -> int:
        """Release what is held for one pattern, or for all, and hold nothing more; returns the number of requests."""
        return int((await self._call("release", **_given(pattern)))["released"])

    async def _call(self, endpoint: str, **given: Any) -> Any:
        async with self._session.get(f"{self.url}/-/{endpoint}?{urlencode(given)}") as response:
            answer = await response.json()
            if response.status != 200:
                raise ValueError(answer["detail"])
            return answer


def _given(pattern: str | None) -> dict[str, str]:
    return {} if pattern is None else {"pattern": pattern}


@asynccontextmanager
async def site_process(*arguments: str) -> AsyncIterator[SiteProcess]:
    """Run the site: `site_process("--products", "500", "--traps")`; see `python -m testkit.site --help`."""
    command = (sys.executable, "-m", "testkit.site", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), _STARTS_S)).decode().strip()
        if not url:
            raise RuntimeError(f"the site did not start: {' '.join(command)}")
        async with aiohttp.ClientSession() as session:
            yield SiteProcess(url, session)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
