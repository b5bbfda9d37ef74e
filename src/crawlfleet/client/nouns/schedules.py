"""Calls for schedules: tasks submitted at an instant, at an interval, or by cron."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from crawlfleet.client._generated.models import AcceptedView, SchedulePageView, ScheduleView
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.types import Fields

_PAGE = 500


class ScheduleCalls(Calls):
    async def create_schedule(
        self,
        task: Fields,
        *,
        at: str | None = None,
        every_s: int | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> ScheduleView:
        """Submit the task, `{"task_type": ..., "parameters": ...}` as in a batch, `at` a time, `every_s` seconds, or by
        `cron` in a `time_zone`: one of the three. `fields` are the others of a schedule: name, starts_at, ends_at,
        jitter_s, catch_up, overlap, is_paused."""
        times = {"at": at, "every_s": every_s, "cron": cron, "time_zone": time_zone}
        body = {"task": task, **{name: value for name, value in times.items() if value is not None}, **fields}
        return await self._transport.create(ScheduleView, "/schedules", body, key=idempotency_key)

    async def schedules(
        self,
        *,
        project_id: str | None = None,
        task_type: str | None = None,
        is_paused: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ScheduleView]:
        """Newest first, page after page."""
        left, cursor = limit, None
        while left is None or left > 0:
            params = {
                "project_id": project_id,
                "task_type": task_type,
                "is_paused": is_paused,
                "limit": _PAGE if left is None else min(_PAGE, left),
                "cursor": cursor,
            }
            page = await self._transport.get(SchedulePageView, "/schedules", params)
            for schedule in page.schedules:
                yield schedule
            left, cursor = None if left is None else left - len(page.schedules), page.next_cursor
            if cursor is None:
                return

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """With its next runs, and what became of its last ones."""
        return await self._transport.get(ScheduleView, f"/schedules/{quote_segment(schedule_id)}")

    async def change_schedule(self, schedule_id: str, **fields: Any) -> ScheduleView:
        """Only what is named: `cron`, `time_zone`, `overlap`, `task` (the whole template), ..."""
        path = f"/schedules/{quote_segment(schedule_id)}"
        return await self._transport.change(ScheduleView, "PATCH", path, fields, is_repeatable=True)

    async def pause_schedule(self, schedule_id: str) -> ScheduleView:
        path = f"/schedules/{quote_segment(schedule_id)}:pause"
        return await self._transport.change(ScheduleView, "POST", path, is_repeatable=True)

    async def resume_schedule(self, schedule_id: str) -> ScheduleView:
        """From now on: what passed by meanwhile is not caught up."""
        path = f"/schedules/{quote_segment(schedule_id)}:resume"
        return await self._transport.change(ScheduleView, "POST", path, is_repeatable=True)

    async def run_schedule(
        self, schedule_id: str, *, force: bool = False, idempotency_key: str | None = None
    ) -> AcceptedView:
        """A task now, outside of its ticks; with `force` also while another one of it goes on."""
        path = f"/schedules/{quote_segment(schedule_id)}:run"
        params = {"force": force} if force else None
        return await self._transport.create(AcceptedView, path, None, key=idempotency_key, params=params)

    async def remove_schedule(self, schedule_id: str) -> None:
        """Tasks that it made stay."""
        return await self._transport.change(type(None), "DELETE", f"/schedules/{quote_segment(schedule_id)}")
