"""Calls for projects: weights and quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crawlfleet.client._generated.models import ProjectPage, ProjectView
from crawlfleet.client.nouns.base import Calls, quote_segment

_PAGE = 1_000


class ProjectCalls(Calls):
    async def projects(self) -> Sequence[ProjectView]:
        """Those that are described, and those that have open tasks; by name."""
        projects: list[ProjectView] = []
        cursor: str | None = None
        while True:
            page = await self._transport.get(ProjectPage, "/projects", {"limit": _PAGE, "cursor": cursor})
            projects += page.projects
            cursor = page.next_cursor
            if cursor is None:
                return projects

    async def project(self, name: str) -> ProjectView:
        return await self._transport.get(ProjectView, f"/projects/{quote_segment(name)}")

    async def put_project(self, name: str, **fields: Any) -> ProjectView:
        """Set its weight, max_waiting, max_running, cpu, memory_mb, pages_per_day, bytes_per_day or on_full; None takes
        a limit away."""
        return await self._transport.change(
            ProjectView, "PUT", f"/projects/{quote_segment(name)}", fields, is_repeatable=True
        )

    async def reset_project(self, name: str) -> None:
        """It has the defaults again; its tasks stay."""
        return await self._transport.change(
            type(None), "DELETE", f"/projects/{quote_segment(name)}", is_repeatable=True
        )
