"""Calls for groups: tasks that are handled together, shards of one task, and crawls over many nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from crawlfleet.client._generated.models import (
    BulkView,
    CrawlResult,
    GroupOutcome,
    GroupOutcomePage,
    GroupPageView,
    GroupResultPage,
    GroupView,
    RemovedView,
)
from crawlfleet.client.errors import WaitTimeout
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.transport.http import Params
from crawlfleet.client.types import Fields, OnGroup, OnWhy, Status, Why

_PAGE = 500
_LOOK_S = (0.2, 1.0)
"""First and longest pause in seconds between two reads of a group."""
_STILL_S = 3.0
"""Time in seconds without a change after which a group counts as standing still."""


class GroupCalls(Calls):
    async def create_group(
        self,
        tasks: Iterable[Fields] = (),
        *,
        name: str | None = None,
        project_id: str | None = None,
        is_closed: bool = False,
        idempotency_key: str | None = None,
    ) -> GroupView:
        """A group with its first tasks (up to 10,000), all of it or nothing. More may join while it is open: submit
        them with `group_id`."""
        body = {"name": name, "project_id": project_id, "is_closed": is_closed, "tasks": list(tasks)}
        return await self._transport.create(GroupView, "/groups", body, key=idempotency_key)

    async def shard(
        self,
        task_type: str,
        parameters: Fields,
        *,
        over: str,
        size: int | None = None,
        count: int | None = None,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> GroupView:
        """A task split into shards: the list at the parameter `over`, by `size` values each or into `count` shards.
        `fields` are the others of a task: priority, queue, timeout_s, retry, ..."""
        by = {"over": over, "size": size, "count": count}
        body = {
            "name": name,
            "project_id": project_id,
            "task": {"task_type": task_type, "parameters": parameters, **fields},
            "shard": {word: value for word, value in by.items() if value is not None},
        }
        return await self._transport.create(GroupView, "/groups", body, key=idempotency_key)

    async def crawl(
        self,
        urls: str | Iterable[str],
        parameters: Fields | None = None,
        *,
        members: int,
        name: str | None = None,
        project_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> GroupView:
        """One crawl over many nodes, from one URL or several: as many tasks as `members` take part in it, and each page
        is read once. `parameters` are those of a web_crawl (depth, max_pages, selectors, ...), of the whole; `fields`
        are the others of its tasks."""
        starts: Any = [urls] if isinstance(urls, str) else list(urls)
        given = dict(parameters or {})
        if (more := given.pop("urls", None)) is not None:
            starts = [*starts, *more] if isinstance(more, list) else more
        body = {
            "name": name,
            "project_id": project_id,
            "crawl": {"members": members},
            "task": {"task_type": "web_crawl", "parameters": {**given, "urls": starts}, **fields},
        }
        return await self._transport.create(GroupView, "/groups", body, key=idempotency_key)

    async def crawl_result(self, group_id: str, *, partial: bool = False) -> CrawlResult:
        """What a crawl over many nodes found, as one: the first items and the figures of the whole."""
        return await self._transport.get(CrawlResult, f"/groups/{quote_segment(group_id)}/result", {"partial": partial})

    async def group(self, group_id: str) -> GroupView:
        """With its progress, exact at this moment, and the first of its failures."""
        return await self._transport.get(GroupView, f"/groups/{quote_segment(group_id)}")

    async def group_why(self, group_id: str) -> Why:
        """What holds up its members that have not ended."""
        reason = await self._transport.get(dict[str, Any], f"/groups/{quote_segment(group_id)}/why")
        return Why(str(reason.pop("sentence")), reason)

    async def groups(
        self, *, project_id: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> AsyncIterator[GroupView]:
        """Newest first, page after page."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            params: Params = {"project_id": project_id, "kind": kind, "limit": size, "cursor": cursor}
            page = await self._transport.get(GroupPageView, "/groups", params)
            for group in page.groups:
                yield group
            left, cursor = None if left is None else left - len(page.groups), page.next_cursor
            if cursor is None:
                return

    async def wait_group(
        self,
        group_id: str,
        timeout: float | None = None,
        on_look: OnGroup | None = None,
        on_still: OnWhy | None = None,
        on_why: OnWhy | None = None,
    ) -> GroupView:
        """The group once every member has ended. `on_look` is called with it about every second, while it stands still
        `on_still` with why, and `on_why` every few seconds with what holds its members up. Raises WaitTimeout; the
        group itself goes on."""
        loop = asyncio.get_running_loop()
        ends_at = None if timeout is None else loop.time() + timeout
        pause, (seen, since) = _LOOK_S[0], (None, loop.time())
        why_at = loop.time() + _STILL_S
        while True:
            group = await self.group(group_id)
            if on_look is not None:
                on_look(group)
            if group.is_finished:
                return group
            if (now_seen := _progress_figures(group)) != seen:
                seen, since = now_seen, loop.time()
            elif on_still is not None and loop.time() - since >= _STILL_S:
                on_still(await self.group_why(group_id))
            if on_why is not None and loop.time() >= why_at:
                on_why(await self.group_why(group_id))
                why_at = loop.time() + _STILL_S
            left = pause if ends_at is None else min(pause, ends_at - loop.time())
            if left <= 0:
                open_tasks = group.progress.open
                raise WaitTimeout([group_id], timeout or 0, f"{open_tasks} members of {group_id} are not final")
            await asyncio.sleep(left)
            pause = min(pause * 1.5, _LOOK_S[1])

    async def close_group(self, group_id: str) -> GroupView:
        """Let no other tasks join."""
        return await self._transport.change(
            GroupView, "POST", f"/groups/{quote_segment(group_id)}:close", is_repeatable=True
        )

    async def cancel_group(self, group_id: str) -> BulkView:
        """Every member that has not ended; no other task may join any more."""
        return await self._change_all(f"/groups/{quote_segment(group_id)}:cancel", {}, is_repeatable=True)

    async def retry_group(self, group_id: str, *, status: Status = None) -> BulkView:
        """Only the members that failed or took too long, or that ended as `status` says: failed, timeout, cancelled."""
        return await self._change_all(
            f"/groups/{quote_segment(group_id)}:retry", {"status": status}, is_repeatable=False
        )

    async def remove_group(self, group_id: str) -> None:
        """Forget a finished group, with its tasks and everything they left."""
        while True:
            answer = await self._transport.change(RemovedView, "DELETE", f"/groups/{quote_segment(group_id)}")
            if answer.is_gone:
                return

    async def group_items(self, group_id: str, *, partial: bool = False) -> AsyncIterator[Any]:
        """The items of all members as one list, in the order of the members. Refused (409) while members are missing,
        unless `partial`."""
        cursor: str | None = None
        while True:
            params: Params = {"limit": _PAGE, "cursor": cursor, "partial": partial}
            page = await self._transport.get(GroupResultPage, f"/groups/{quote_segment(group_id)}/results", params)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def group_outcomes(self, group_id: str) -> AsyncIterator[GroupOutcome]:
        """What became of each member, with the results of those that completed, in order."""
        cursor: str | None = None
        while True:
            params: Params = {"limit": _PAGE, "cursor": cursor}
            page = await self._transport.get(GroupOutcomePage, f"/groups/{quote_segment(group_id)}/outcomes", params)
            for outcome in page.outcomes:
                yield outcome
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _change_all(self, path: str, params: Params, *, is_repeatable: bool) -> BulkView:
        """Repeat a call with its cursor until all members are done: one call changes a limited number of them."""
        answers: list[BulkView] = []
        cursor: str | None = None
        while True:
            answers.append(
                await self._transport.change(
                    BulkView, "POST", path, params={**params, "cursor": cursor}, is_repeatable=is_repeatable
                )
            )
            cursor = answers[-1].next_cursor
            if cursor is None:
                return _merge_answers(answers)


def _merge_answers(answers: list[BulkView]) -> BulkView:
    by_status: Counter[str] = Counter()
    for answer in answers:
        by_status.update(answer.by_status)
    return msgspec.structs.replace(
        answers[0],
        changed=sum(answer.changed for answer in answers),
        refused=sum(answer.refused for answer in answers),
        by_status=dict(by_status),
        next_cursor=None,
    )


def _progress_figures(group: GroupView) -> object:
    """Return the figures that change when a group makes progress; rates change by themselves."""
    if (crawl := group.crawl) is not None:
        return crawl.pages, crawl.failed, crawl.skipped, crawl.moved, crawl.found
    return group.progress.open
