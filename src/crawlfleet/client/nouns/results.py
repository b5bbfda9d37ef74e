"""Calls for results: the items and log lines of executions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from crawlfleet.client._generated.models import LogPage, ResultPage
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.transport.http import Params
from crawlfleet.client.types import LogLevel, LogLine

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
            ResultPage, f"/tasks/{quote_segment(task_id)}/results", {"limit": limit, "cursor": cursor}
        )

    async def log(
        self,
        task_id: str,
        *,
        follow: bool = False,
        execution: str | None = None,
        level: LogLevel | None = None,
        q: str | None = None,
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """The log of the newest execution, or of the one named; with `follow` until that is over. `level` and above,
        with `q` in them, and with `tail` only the last so many of what is there."""
        params: dict[str, str | int | None] = {"execution": execution, "level": level, "q": q}
        after: str | None = None
        if tail is not None:
            lines, after, params["execution"] = await self._load_tail(task_id, params, tail)
            for line in lines:
                yield line
        while True:
            page = await self._log_page(task_id, {**params, "limit": _PAGE, "after": after})
            for line in _log_lines(page):
                yield line
            # One execution is followed to its end: lines of its successor would have another order.
            params["execution"] = page.execution_id or params["execution"]
            after = page.next_after
            if page.is_end:
                if not (follow and page.is_live):
                    return
                await asyncio.sleep(_FOLLOW_S)

    async def _load_tail(
        self, task_id: str, filters: Mapping[str, str | int | None], count: int
    ) -> tuple[list[LogLine], str | None, str | None]:
        """Return the last lines, the cursor at which the log went on then, and the execution that they belong to."""
        lines: list[LogLine] = []
        before: str | None = "end"
        after, execution = None, filters["execution"]
        while before is not None:
            # At least one line is requested: its page has the position where the log ends.
            limit = min(_PAGE, max(1, count - len(lines)))
            params = {**filters, "execution": execution, "limit": limit, "before": before}
            page = await self._log_page(task_id, params)
            lines[:0] = _log_lines(page)
            execution, after = page.execution_id or execution, after or page.next_after
            before = page.next_before if len(lines) < count else None
        return lines[len(lines) - min(count, len(lines)) :], after, None if execution is None else str(execution)

    async def _log_page(self, task_id: str, params: Params) -> LogPage:
        return await self._transport.get(LogPage, f"/tasks/{quote_segment(task_id)}/log", params)


def _log_lines(page: LogPage) -> tuple[LogLine, ...]:
    return msgspec.convert(page.lines, type=tuple[LogLine, ...])
