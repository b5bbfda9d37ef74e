"""What executions leave: items and log lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from crawlfleet.client.answers import LogLevel, LogLine
from crawlfleet.client.calls import Calls, part
from crawlfleet.client.models import LogPage, ResultPage

_PAGE = 1_000
_FOLLOW_S = 0.5


class ResultCalls(Calls):
    async def results(self, task_id: str) -> AsyncIterator[Any]:
        """The items of a task, page after page; of a running one, those that are there."""
        cursor: str | None = None
        while True:
            page = await self.result_page(task_id, limit=_PAGE, cursor=cursor)
            for item in page.items:
                yield item
            if page.next_cursor is None or (not page.is_final and not page.items):
                return
            cursor = page.next_cursor

    async def result_page(self, task_id: str, *, limit: int = 100, cursor: str | None = None) -> ResultPage:
        return await self._transport.get(
            ResultPage, f"/tasks/{part(task_id)}/results", {"limit": limit, "cursor": cursor}
        )  # fmt: skip

    async def log(
        self, task_id: str, *, follow: bool = False, execution: str | None = None, level: LogLevel | None = None
    ) -> AsyncIterator[LogLine]:
        """The log of the newest execution, or of the one named; with `follow` until that is over."""
        after: str | None = None
        while True:
            params = {"limit": _PAGE, "after": after, "execution": execution, "level": level}
            page = await self._transport.get(LogPage, f"/tasks/{part(task_id)}/log", params)
            for line in msgspec.convert(page.lines, type=tuple[LogLine, ...]):
                yield line
            # One execution to its end: lines of its successor would have another order.
            execution, is_new = page.execution_id or execution, page.next_after != after
            after = page.next_after
            if not page.is_live and not is_new:
                return
            if not page.lines:
                if not follow or not page.is_live:
                    return
                await asyncio.sleep(_FOLLOW_S)
