"""Explains why a group makes no progress, from its first members that have not ended; any master can read them in the
store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlfleet.control.explain.host_waits import AwaitedHosts
from crawlfleet.errors import NotFound
from crawlfleet.model.ids import GroupId, TaskId, group_text
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import CompositeStore
from crawlfleet.scheduling.explain import group as explain_group
from crawlfleet.scheduling.explain import task as explain

LOOKED_AT = 16
"""Number of members that are examined: what holds up a group of thousands holds up the first of them."""
PAGE = 1_000


class WhyGroup:
    def __init__(
        self,
        *,
        store: CompositeStore,
        clock: Clock,
        hosts: AwaitedHosts,
        explain_task: Callable[[TaskId], Awaitable[explain.Explanation]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hosts = hosts
        self._explain_task = explain_task

    async def explain_group(self, group: GroupId) -> explain.Explanation:
        if group not in await self._store.load_groups([group]):
            raise NotFound(f"no group {group_text(group)}")
        counts = (await self._store.group_counts([group]))[group]
        members, waits = [], []
        records = await self._store.load_tasks(await self._list_open_members(group) if counts.open else [])
        now = self._clock.now()
        for task, record in records.items():
            explanation = await self._explain_task(task)
            if explanation.data["cause"] != "final":
                members.append(explanation)
                waits += await self._hosts.find_waits(record, now)
        return explain_group.explain_group(counts.open, members, waits)

    async def _list_open_members(self, group: GroupId) -> list[TaskId]:
        open_tasks: list[TaskId] = []
        after: TaskId | None = 0
        while after is not None and len(open_tasks) < LOOKED_AT:
            page = await self._store.walk_members(group, after, PAGE)
            open_tasks += [task for task, is_open in page if is_open]
            after = page[-1][0] if len(page) == PAGE else None
        return open_tasks[:LOOKED_AT]
