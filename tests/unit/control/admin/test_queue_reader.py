"""Queues as people read them: those with settings or pending tasks, and the default one."""

from __future__ import annotations

from pathlib import Path

from crawlfleet.control.admin.queue_reader import QueueReader, QueueReport
from crawlfleet.model.queue import Queue
from tests.unit.store.store_kit import sqlite_kit


async def test_queues_with_settings_or_tasks_are_listed_by_name(tmp_path: Path) -> None:
    async with sqlite_kit(tmp_path) as kit:
        reader = QueueReader(store=kit.store)
        assert await reader.list_queues() == [QueueReport(Queue("default"), has_pending=False)]
        await kit.store.set_queue_paused("slow", True, kit.now)
        await kit.store.set_queue_order("stack", True, kit.now)
        await kit.store.set_queue_paused("once paused", True, kit.now)
        await kit.store.set_queue_paused("once paused", False, kit.now)
        await kit.submit_one(lane=await kit.known_lane(queue="busy"))
        assert await reader.list_queues() == [
            QueueReport(Queue("busy"), has_pending=True),
            QueueReport(Queue("default"), has_pending=False),
            QueueReport(Queue("slow", is_paused=True), has_pending=False),
            QueueReport(Queue("stack", is_lifo=True), has_pending=False),
        ]
