"""Audit of submits: one entry a second for each caller, however many calls the caller makes.

An entry for every call would cost as much as the task. The first call is written at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from crawlfleet.control.admin.audit import Audit
from crawlfleet.errors import Unavailable
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.principal import Principal

PAUSE_S = 1.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Line:
    first: TaskId
    last: TaskId
    tasks: int = 0


class SubmitLog:
    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._lines: dict[tuple[Principal, str], _Line] = {}
        self._writer: asyncio.Task[None] | None = None

    def note_submit(self, principal: Principal, address: str, first: TaskId, last: TaskId, tasks: int) -> None:
        line = self._lines.get((principal, address))
        if line is None:
            line = self._lines[principal, address] = _Line(first, last)
        line.first, line.last = min(line.first, first), max(line.last, last)
        line.tasks += tasks
        if self._writer is None:
            self._writer = asyncio.create_task(self._run_writer(), name="submit log")

    async def close(self) -> None:
        """Write the entries that are left."""
        if self._writer is not None:
            self._writer.cancel()
        await self._write_lines()

    async def _run_writer(self) -> None:
        try:
            while self._lines:
                await self._write_lines()
                await asyncio.sleep(PAUSE_S)
        finally:
            self._writer = None

    async def _write_lines(self) -> None:
        for (principal, address), line in list(self._lines.items()):
            del self._lines[principal, address]
            target = task_text(line.first) if line.tasks == 1 else f"{line.tasks} tasks"
            details = {"tasks": line.tasks, "first": task_text(line.first), "last": task_text(line.last)}
            try:
                await self._audit.write_entry(principal, address, "task.submit", target, details)
            except Unavailable as exc:
                # The tasks are stored and are a record by themselves; a store that is unavailable cannot take this
                # entry either.
                log.warning("submits_not_noted", by=principal.name, **details, error=repr(exc))
