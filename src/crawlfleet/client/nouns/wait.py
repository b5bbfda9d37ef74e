"""Waits until tasks are final.

A few tasks are waited for with long polls: the master answers when they have ended. For many tasks, events announce
their ends, and at intervals all open tasks are read again: an event may be missed (a stream that broke for longer than
events are kept), so it is only a hint; the state of a task always comes from the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any

from crawlfleet.client._generated.models import EventPage, TaskPageView, TaskView
from crawlfleet.client.errors import ApiError, Unreachable, WaitTimeout
from crawlfleet.client.nouns.base import quote_segment
from crawlfleet.client.nouns.event_stream import follow_events
from crawlfleet.client.transport.http import Transport
from crawlfleet.client.transport.retry import may_repeat
from crawlfleet.client.types import FINAL_STATUSES, OnLook, OnProgress

LOOK_AGAIN_S = 10.0
LONG_POLLS = 8
"""Number of tasks up to which each has a long poll on a connection of its own."""
LONG_POLL_S = 30
LOOK_S = 1
"""Timeout in seconds of a long poll where `on_look` is to be called."""
_AGAIN_S = (0.2, 5.0)
ONE_BY_ONE = 50
"""Number of tasks up to which each is requested by itself; above it, whole pages are requested."""
_AT_A_TIME = 16
_PAGE = 1_000
_KINDS = tuple(f"task.{status}" for status in sorted(FINAL_STATUSES))


class Waiting:
    def __init__(
        self, transport: Transport, ids: Sequence[str], on_progress: OnProgress | None, on_look: OnLook | None = None
    ) -> None:
        self._transport = transport
        self._ids = ids
        self._open = set(ids)
        self._total = len(self._open)
        self._final_tasks: dict[str, TaskView] = {}
        self._on_progress = on_progress
        self._on_look = on_look
        self._wake_up = asyncio.Event()
        self._gate = asyncio.Semaphore(_AT_A_TIME)

    async def run(self, timeout_s: float | None, *, with_results: bool) -> Sequence[TaskView]:
        try:
            async with asyncio.timeout(timeout_s):
                if len(self._open) <= LONG_POLLS:
                    await self._poll_all()
                else:
                    await self._follow_many(with_results=with_results)
        except TimeoutError:
            raise WaitTimeout(sorted(self._open), timeout_s or 0.0) from None
        return [self._final_tasks[task] for task in self._ids]

    async def _poll_all(self) -> None:
        await _run_all(self._poll_one(task) for task in sorted(self._open))

    async def _poll_one(self, task: str) -> None:
        pause, is_answered = _AGAIN_S[0], False
        loop = asyncio.get_running_loop()
        wait_s = LONG_POLL_S if self._on_look is None else LOOK_S
        while task in self._open:
            asked_at = loop.time()
            try:
                task_view = await self._transport.get(TaskView, f"/tasks/{quote_segment(task)}", {"wait_s": wait_s})
                if self._on_look is not None:
                    self._on_look(task_view)
                self._keep_if_final(task_view)
                is_answered = True
            except Unreachable:
                # A master that is restarted does not end the wait; one that never answered does.
                if not is_answered:
                    raise
            except ApiError as exc:
                if not may_repeat(exc.status, is_repeatable=True) and not (exc.is_foreign and is_answered):
                    raise
            if loop.time() - asked_at >= 1:
                pause = _AGAIN_S[0]
            elif task in self._open:
                # The long poll was answered at once: the master is about to stop, or cannot be reached.
                await asyncio.sleep(pause)
                pause = min(pause * 2, _AGAIN_S[1])

    async def _follow_many(self, *, with_results: bool) -> None:
        # The position is from before the first read: what ends between the read and the stream is in the stream.
        last = (await self._transport.get(EventPage, "/events", {"format": "json", "limit": 1})).last
        await self._look_up(self._open)
        if self._open:
            await self._wait_for_events(last)
        await self._load_missing(with_results=with_results)

    async def _load_missing(self, *, with_results: bool) -> None:
        """Read what is still missing: events report only that a task is final, and pages show no results."""
        if with_results:
            await self._load_tasks(
                [task for task in dict.fromkeys(self._ids) if not _is_whole(self._final_tasks.get(task))]
            )
        else:
            await self._look_up({task for task in self._ids if task not in self._final_tasks})

    async def _wait_for_events(self, last: int) -> None:
        listener = asyncio.create_task(self._read_events(last), name="wait for tasks")
        loop = asyncio.get_running_loop()
        look_at = loop.time() + LOOK_AGAIN_S
        try:
            while self._open:
                try:
                    async with asyncio.timeout_at(look_at):
                        await self._wake_up.wait()
                except TimeoutError:
                    await self._look_up(self._open)
                    look_at = loop.time() + LOOK_AGAIN_S
                self._wake_up.clear()
                if listener.done():
                    listener.result()
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    async def _read_events(self, last: int) -> None:
        try:
            async for event in follow_events(self._transport, {"kind": _KINDS}, after=last):
                if self._mark_final(str(event.data.get("task"))):
                    self._wake_up.set()
        finally:
            self._wake_up.set()

    def _mark_final(self, task: str) -> bool:
        if task not in self._open:
            return False
        self._open.discard(task)
        if self._on_progress is not None:
            self._on_progress(self._total - len(self._open), self._total)
        return True

    async def _look_up(self, ids: set[str]) -> None:
        """Find out which of these tasks are final already."""
        if len(ids) <= ONE_BY_ONE:
            await self._load_tasks(sorted(ids))
            return
        seen = set()
        async for task in self._load_range(min(ids), max(ids)):
            if task.id in ids:
                seen.add(task.id)
                self._keep_if_final(task)
        # A task that no page shows does not exist, and the request for it raises that error.
        await self._load_tasks(sorted(ids - seen)[:1])

    async def _load_range(self, first: str, last: str) -> AsyncIterator[TaskView]:
        """Yield the tasks of a range of ids. Ids sort by time, so that these tasks are neighbours: the first page
        begins with the last of them."""
        cursor: str | None = _next_id(last)
        while cursor is not None and cursor > first:
            page = await self._transport.get(TaskPageView, "/tasks", {"limit": _PAGE, "cursor": cursor})
            for task in page.tasks:
                yield task
            cursor = page.next_cursor

    async def _load_tasks(self, ids: Sequence[str]) -> None:
        await _run_all(self._load_task(task) for task in ids)

    async def _load_task(self, task: str) -> None:
        async with self._gate:
            self._keep_if_final(await self._transport.get(TaskView, f"/tasks/{quote_segment(task)}"))

    def _keep_if_final(self, task: TaskView) -> None:
        if task.status in FINAL_STATUSES:
            self._final_tasks[task.id] = task
            self._mark_final(task.id)


async def _run_all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call)
    except ExceptionGroup as several:
        # Callers handle the errors of one call, not groups of them.
        raise several.exceptions[0] from None


def _is_whole(task: TaskView | None) -> bool:
    return task is not None and (task.result is not None or task.error is not None)


def _next_id(task: str) -> str:
    """Return the id after this one; a text that is no id is left for the master to refuse."""
    head, _, digits = task.partition("-")
    try:
        return f"{head}-{int(digits, 16) + 1:016x}"
    except ValueError:
        return task
