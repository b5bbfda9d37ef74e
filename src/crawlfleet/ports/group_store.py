"""The store of groups of tasks. The rules are those of `ports.store`; members are added by `TaskStore.add`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.group import Group, GroupCounts, GroupKind
from crawlfleet.model.ids import ExecutionId, GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.crawl_store import NewCrawl


class NewGroup(NamedTuple):
    """A group that is to be made."""

    id: GroupId
    project: str
    name: str | None = None
    kind: GroupKind = GroupKind.GROUP
    is_closed: bool = False
    """Whether no further members may be added."""
    spec: bytes | None = None
    """Specification of a group that was made from one task, as JSON."""
    crawl: NewCrawl | None = None
    """The crawl over many nodes whose members the group holds."""


class Member(NamedTuple):
    """A task of a group, with the result of the execution that completed it."""

    task: TaskId
    status: TaskStatus
    execution: ExecutionId | None
    """Id of the execution that completed the task; None where none did."""
    result: bytes | None
    metrics: bytes | None
    reason: str | None


class MemberFailure(NamedTuple):
    """A member of a group that failed, with its error message."""

    task: TaskId
    status: TaskStatus
    message: str | None


class GroupStore(Protocol):
    """Access to groups and their members."""

    async def groups(self, ids: Sequence[GroupId]) -> dict[GroupId, Group]: ...

    async def list_groups(
        self, limit: int, before: GroupId | None = None, project: str | None = None, kind: GroupKind | None = None
    ) -> list[Group]:
        """List groups, newest first."""
        ...

    async def group_counts(self, ids: Sequence[GroupId]) -> dict[GroupId, GroupCounts]:
        """Return the counts of groups from counters: exact at any time, at a cost independent of the group's size."""
        ...

    async def count_members(self, group: GroupId) -> GroupCounts:
        """Return the same counts by counting rows: slow, for checks."""
        ...

    async def members(self, group: GroupId, after: TaskId, limit: int, *, with_results: bool = True) -> list[Member]:
        """Return members in order of id, which is the order of shards."""
        ...

    async def walk_members(self, group: GroupId, after: TaskId, limit: int) -> list[tuple[TaskId, bool]]:
        """Return the next members in order of id, each with whether it is open."""
        ...

    async def ended_members(
        self, group: GroupId, statuses: Sequence[TaskStatus], after: TaskId, limit: int
    ) -> list[TaskId]:
        """Return members that ended with these statuses, in order of id.

        The status completed is not supported: there is no index of completed members.
        """
        ...

    async def member_failures(self, group: GroupId, limit: int) -> list[MemberFailure]:
        """Return the first members that failed or timed out."""
        ...

    async def close_group(self, group: GroupId) -> bool:
        """Close a group for new members; a concurrent submission has either joined or is refused.

        Returns False when there is no such group.
        """
        ...

    async def remove_group(self, group: GroupId) -> bool:
        """Remove a group without members; False while it has some, and while a large crawl is not entirely removed."""
        ...

    async def settle_groups(self, term: int, now: Instant) -> int:
        """Fold the counter deltas and mark groups whose last member has ended; returns the number of folded rows."""
        ...
