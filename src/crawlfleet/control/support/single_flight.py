"""Single-flight: concurrent callers share one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SingleFlight:
    def __init__(self, call: Callable[[], Awaitable[None]], name: str) -> None:
        self._call = call
        self._name = name
        self._under_way: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._run_call(), name=self._name)
            # Retrieves the exception, as no caller may be left to do so.
            self._under_way.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Shielded: a caller that is cancelled must not cancel the call of the others.
        await asyncio.shield(self._under_way)

    async def _run_call(self) -> None:
        try:
            await self._call()
        finally:
            self._under_way = None
