"""Calls for tasks: submit, show, wait for, change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import msgspec

from crawlfleet.client._generated.models import (
    AcceptedView,
    BulkView,
    ChangedView,
    ExecutionsView,
    ExecutionView,
    RefusedView,
    StatsView,
    TaskPageView,
    TaskTypeList,
    TaskTypeView,
    TaskView,
)
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.nouns.wait import Waiting
from crawlfleet.client.types import BatchItem, BatchMode, Fields, OnLook, OnProgress, Status, Why

BATCH_TASKS = 10_000
BATCH_BYTES = 8_000_000
"""Maximum size of a batch in bytes, below what a master accepts by enough for the JSON around it."""
_PAGE = 500


class TaskCalls(Calls):
    async def submit(
        self, task_type: str, parameters: Fields | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> AcceptedView:
        """One task; `fields` are the others of a task: project_id, priority, queue, timeout_s, retry, ...
        Answered once it is stored; a retry of a lost answer never makes a second task."""
        body = {"task_type": task_type, "parameters": parameters or {}, **fields}
        return await self._transport.create(AcceptedView, "/tasks", body, key=idempotency_key)

    @overload
    async def submit_batch(
        self, tasks: Iterable[Fields], mode: Literal["atomic"] = "atomic", *, on_progress: OnProgress | None = None
    ) -> Sequence[AcceptedView]: ...
    @overload
    async def submit_batch(
        self, tasks: Iterable[Fields], mode: Literal["each"], *, on_progress: OnProgress | None = None
    ) -> Sequence[BatchItem]: ...
    async def submit_batch(
        self, tasks: Iterable[Fields], mode: BatchMode = "atomic", *, on_progress: OnProgress | None = None
    ) -> Sequence[Any]:
        """Many tasks, answered in order. `atomic`: all of them or none (up to 10,000). `each`: those that are right,
        any number, with a `RefusedView` for each of the others."""
        whole = list(tasks)
        done: list[BatchItem] = []
        for batch in [whole] if mode == "atomic" else _split_batches(whole):
            if not batch:
                continue
            body = {"tasks": batch, "mode": mode}
            answer = await self._transport.create(_Batch, "/tasks:batch", body)
            done.extend(_decode_item(raw) for raw in answer.tasks)
            if on_progress is not None:
                on_progress(len(done), len(whole))
        return done

    async def get(self, task_id: str) -> TaskView:
        return await self._transport.get(TaskView, f"/tasks/{quote_segment(task_id)}")

    async def list(
        self,
        *,
        status: Status = None,
        project_id: str | None = None,
        workflow_id: str | None = None,
        type: str | None = None,
        queue: str | None = None,
        node: str | None = None,
        q: str | None = None,
        group: str | None = None,
        limit: int | None = None,
        include: Status = None,
    ) -> AsyncIterator[TaskView]:
        """Newest first, page after page; at most `limit` of them. With `include="parameters"` each with its own."""
        left, cursor = limit, None
        while left is None or left > 0:
            page = await self.page(
                status=status,
                project_id=project_id,
                workflow_id=workflow_id,
                type=type,
                queue=queue,
                node=node,
                q=q,
                group=group,
                limit=_PAGE if left is None else min(_PAGE, left),
                cursor=cursor,
                include=include,
            )
            for task in page.tasks:
                yield task
            left, cursor = None if left is None else left - len(page.tasks), page.next_cursor
            if cursor is None:
                return

    async def page(
        self,
        *,
        status: Status = None,
        project_id: str | None = None,
        workflow_id: str | None = None,
        type: str | None = None,
        queue: str | None = None,
        node: str | None = None,
        q: str | None = None,
        group: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        include: Status = None,
    ) -> TaskPageView:
        """One page, with the cursor of the next."""
        params = {
            "status": status,
            "project_id": project_id,
            "workflow_id": workflow_id,
            "type": type,
            "queue": queue,
            "node": node,
            "q": q,
            "group": group,
            "limit": limit,
            "cursor": cursor,
            "include": include,
        }
        return await self._transport.get(TaskPageView, "/tasks", params)

    async def wait(
        self,
        ids: str | Iterable[str],
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        *,
        with_results: bool = True,
        on_look: OnLook | None = None,
    ) -> Sequence[TaskView]:
        """The tasks, in the order given (one id is a list of one), once all are final. `with_results=False` spares a
        call per task where only their statuses matter. `on_look` is called every second with each of a few tasks as it
        is. Raises WaitTimeout; the tasks themselves go on."""
        wanted = [ids] if isinstance(ids, str) else list(ids)
        return await Waiting(self._transport, wanted, on_progress, on_look).run(timeout, with_results=with_results)

    async def cancel(self, task_id: str) -> ChangedView:
        return await self._transport.change(ChangedView, "POST", f"/tasks/{quote_segment(task_id)}:cancel")

    async def retry(self, task_id: str) -> ChangedView:
        """The next round of a task that has ended."""
        return await self._transport.change(ChangedView, "POST", f"/tasks/{quote_segment(task_id)}:retry")

    async def prioritize(self, task_id: str, priority: int) -> ChangedView:
        body = {"priority": priority}
        return await self._transport.change(
            ChangedView, "PATCH", f"/tasks/{quote_segment(task_id)}", body, is_repeatable=True
        )

    async def assign(self, task_id: str, node: str) -> ChangedView:
        """To a node of your choice, by its id, device id or name."""
        return await self._transport.change(
            ChangedView, "POST", f"/tasks/{quote_segment(task_id)}:assign", {"node": node}
        )

    async def cancel_many(
        self, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        """By ids or by filter (the words of `list`). More than one call does: go on with the answer's cursor."""
        return await self._transport.change(BulkView, "POST", "/tasks:cancel", _selection_body(ids, filter, cursor))

    async def retry_many(
        self, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        return await self._transport.change(BulkView, "POST", "/tasks:retry", _selection_body(ids, filter, cursor))

    async def prioritize_many(
        self,
        priority: int,
        *,
        ids: Sequence[str] | None = None,
        filter: Fields | None = None,
        cursor: str | None = None,
    ) -> BulkView:
        body = {**_selection_body(ids, filter, cursor), "priority": priority}
        return await self._transport.change(BulkView, "POST", "/tasks:prioritize", body, is_repeatable=True)

    async def assign_many(
        self, node: str, *, ids: Sequence[str] | None = None, filter: Fields | None = None, cursor: str | None = None
    ) -> BulkView:
        """To a node of your choice, as many as it has room for; a filter without a status means those pending."""
        body = {**_selection_body(ids, filter, cursor), "node": node}
        return await self._transport.change(BulkView, "POST", "/tasks:assign", body)

    async def why(self, task_id: str) -> Why:
        reason = await self._transport.get(dict[str, Any], f"/tasks/{quote_segment(task_id)}/why")
        return Why(str(reason.pop("sentence")), reason)

    async def executions(self, task_id: str) -> Sequence[ExecutionView]:
        """Every attempt, oldest first."""
        executions: list[ExecutionView] = []
        cursor: str | None = None
        while True:
            page = await self._transport.get(
                ExecutionsView, f"/tasks/{quote_segment(task_id)}/executions", {"cursor": cursor}
            )
            executions.extend(page.executions)
            cursor = page.next_cursor
            if cursor is None:
                return executions

    async def stats(self, project_id: str | None = None) -> StatsView:
        return await self._transport.get(StatsView, "/tasks:stats", {"project_id": project_id})

    async def task_types(self) -> Sequence[TaskTypeView]:
        return (await self._transport.get(TaskTypeList, "/task-types")).task_types


class _Batch(msgspec.Struct):
    tasks: Sequence[msgspec.Raw]


def _decode_item(raw: msgspec.Raw) -> BatchItem:
    # Two kinds of objects without a tag between them: only the refused one has `error`.
    if "error" in msgspec.json.decode(raw):
        return msgspec.json.decode(raw, type=RefusedView)
    return msgspec.json.decode(raw, type=AcceptedView)


def _selection_body(ids: Sequence[str] | None, where: Fields | None, cursor: str | None) -> Mapping[str, Any]:
    selection = {"ids": ids, "filter": where, "cursor": cursor}
    return {name: value for name, value in selection.items() if value is not None}


def _split_batches(tasks: Sequence[Fields]) -> Iterator[Sequence[Any]]:
    """Split tasks into batches by number and by size. A task that was encoded once is not encoded again."""
    batch: list[msgspec.Raw] = []
    size = 0
    for task in tasks:
        raw = msgspec.Raw(msgspec.json.encode(task))
        if batch and (len(batch) == BATCH_TASKS or size + len(raw) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(raw)
        size += len(raw) + 1
    yield batch
