"""Calls for dead letters: tasks that ended as failed or timeout, kept with their cause."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from crawlfleet.client._generated.models import (
    BulkView,
    CausesView,
    CauseView,
    ChangedView,
    DeadLetterDetail,
    DeadLetterPageView,
    DeadLetterView,
)
from crawlfleet.client.nouns.base import Calls, quote_segment

_PAGE = 500


class DeadLetterCalls(Calls):
    async def dead_letters(
        self, *, cause: str | None = None, project_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[DeadLetterView]:
        """Newest first, page after page."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            params = {"cause": cause, "project_id": project_id, "limit": size, "cursor": cursor}
            page = await self._transport.get(DeadLetterPageView, "/dead-letters", params)
            for letter in page.dead_letters:
                yield letter
            left, cursor = None if left is None else left - len(page.dead_letters), page.next_cursor
            if cursor is None:
                return

    async def dead_letter_groups(self, *, project_id: str | None = None) -> Sequence[CauseView]:
        """By cause, the most frequent first."""
        return (await self._transport.get(CausesView, "/dead-letters:groups", {"project_id": project_id})).groups

    async def dead_letter(self, task_id: str) -> DeadLetterDetail:
        return await self._transport.get(DeadLetterDetail, f"/dead-letters/{quote_segment(task_id)}")

    async def replay(self, task_id: str) -> ChangedView:
        """The next round of its task."""
        return await self._transport.change(ChangedView, "POST", f"/dead-letters/{quote_segment(task_id)}:replay")

    async def replay_many(self, *, ids: Sequence[str] | None = None, cause: str | None = None) -> BulkView:
        body = {"ids": ids} if ids is not None else {"cause": cause}
        return await self._transport.change(BulkView, "POST", "/dead-letters:replay", body)

    async def drop_many(self, *, ids: Sequence[str] | None = None, cause: str | None = None) -> BulkView:
        """Forget them, with their tasks and their history."""
        body = {"ids": ids} if ids is not None else {"cause": cause}
        return await self._transport.change(BulkView, "POST", "/dead-letters:drop", body)

    async def drop_dead_letter(self, task_id: str) -> None:
        """Forget it, with its task and its history."""
        return await self._transport.change(type(None), "DELETE", f"/dead-letters/{quote_segment(task_id)}")
