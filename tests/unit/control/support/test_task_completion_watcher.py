"""Waiting for tasks to end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from crawlfleet.broker.memory.signals import MemorySignals
from crawlfleet.control.support.task_completion_watcher import TaskCompletionWatcher
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import ENDS
from crawlfleet.ports.task_store import TaskStore


class SlowStore:
    """Answers when it is told to."""

    def __init__(self, live: set[TaskId]) -> None:
        self.is_live = live
        self.asked: asyncio.Queue[tuple[Sequence[TaskId], asyncio.Future[None]]] = asyncio.Queue()

    async def live_tasks(self, tasks: Sequence[TaskId]) -> dict[TaskId, Any]:
        may_answer = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((tasks, may_answer))
        await may_answer
        return {task: None for task in tasks if task in self.is_live}


async def test_who_comes_while_the_store_is_asked_waits_on() -> None:
    store, signals = SlowStore({1, 2}), MemorySignals()
    ends = TaskCompletionWatcher(store=cast("TaskStore", store), signals=signals)
    with ends.watch_task(1) as first:
        waiting = asyncio.create_task(ends.wait_for_end(first, 60))
        tasks, may_answer = await store.asked.get()
        assert list(tasks) == [1]
        with ends.watch_task(2) as late:
            may_answer.set_result(None)
            await signals.send_signals([ENDS])
            tasks, may_answer = await store.asked.get()
            assert sorted(tasks) == [1, 2]
            assert not first.done()
            assert not late.done(), "nobody had asked for its task"
            store.is_live = {1}
            may_answer.set_result(None)
            await asyncio.wait([late], timeout=5)
            assert late.done()
            assert not first.done()
        ends.close()
        await waiting
