"""Groups of tasks. The rules are those of `ports.store`; members are added by `TaskStore.add`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.group import Group, GroupCounts, GroupKind
from crawlfleet.model.ids import ExecutionId, GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.crawl_store import NewCrawl


class NewGroup(NamedTuple):
    id: GroupId
    project: str
    name: str | None = None
    kind: GroupKind = GroupKind.GROUP
    is_closed: bool = False
    spec: bytes | None = None
    crawl: NewCrawl | None = None


class Member(NamedTuple):
    """A task of a group, with what the execution that completed it gave."""

    task: TaskId
    status: TaskStatus
    execution: ExecutionId | None
    """The one that completed it; None where none did."""
    result: bytes | None
    metrics: bytes | None
    reason: str | None


class MemberFailure(NamedTuple):
    task: TaskId
    status: TaskStatus
    message: str | None


class GroupStore(Protocol):
    async def groups(self, ids: Sequence[GroupId]) -> dict[GroupId, Group]: ...

    async def list_groups(
        self, limit: int, before: GroupId | None = None, project: str | None = None, kind: GroupKind | None = None
    ) -> list[Group]:
        """Newest first."""
        ...

    async def group_counts(self, ids: Sequence[GroupId]) -> dict[GroupId, GroupCounts]:
        """From counters: exact at any moment, at a cost that does not grow with the group."""
        ...

    async def count_members(self, group: GroupId) -> GroupCounts:
        """The same by counting rows: slow, for checks."""
        ...

    async def members(self, group: GroupId, after: TaskId, limit: int, *, with_results: bool = True) -> list[Member]:
        """In order of id, which is the order of shards."""
        ...

    async def walk_members(self, group: GroupId, after: TaskId, limit: int) -> list[tuple[TaskId, bool]]:
        """The next members, each with whether it is open, in order of id."""
        ...

    async def ended_members(
        self, group: GroupId, statuses: Sequence[TaskStatus], after: TaskId, limit: int
    ) -> list[TaskId]:
        """Members that ended so, in order of id; not those that completed: of them there is no index."""
        ...

    async def member_failures(self, group: GroupId, limit: int) -> list[MemberFailure]:
        """The first members that failed or took too long."""
        ...

    async def close_group(self, group: GroupId) -> bool:
        """Let nobody join any more; whoever was about to has joined, or is refused. False: there is no such group."""
        ...

    async def remove_group(self, group: GroupId) -> bool:
        """Forget a group that has no members; False while it has some, and while a large crawl is not all forgotten."""
        ...

    async def settle_groups(self, term: int, now: Instant) -> int:
        """Fold what was counted, and note groups whose last member has ended; how many rows were folded."""
        ...
