"""Operations on whole groups: create, show, cancel, retry, remove; a limited number of members at a time, however many
there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from crawlfleet.control.tasks.changes import TaskChanges
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.model.crawl import CrawlState
from crawlfleet.model.group import Group, GroupCounts, GroupKind, is_finished
from crawlfleet.model.ids import GroupId, IdFactory, TaskId, group_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.composite_store import MemberFailure
from crawlfleet.ports.store import CompositeStore
from crawlfleet.ports.task_store import Applied, NewCrawl, NewGroup, SubmissionAnswer
from crawlfleet.wire.groups import ShardSpec
from crawlfleet.wire.tasks import TaskBody

PAGE = 1_000
"""Maximum number of members in one transaction."""
FAILURES_SHOWN = 10
_SPEC = msgspec.json.Decoder(ShardSpec)


class IsFlow(Conflict):
    """The group is a flow, which has verbs of its own that keep to its graph."""

    code = "part_of_flow"


class GroupOpen(Conflict):
    code = "group_open"


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A group that a caller wants to create."""

    project: str = ""
    name: str | None = None
    is_closed: bool = False
    shards: ShardSpec | None = None
    crawl: NewCrawl | None = None

    @property
    def kind(self) -> GroupKind:
        if self.crawl is not None:
            return GroupKind.CRAWL
        return GroupKind.GROUP if self.shards is None else GroupKind.SHARDS


@dataclass(frozen=True, slots=True)
class Progress:
    group: Group
    counts: GroupCounts
    failures: Sequence[MemberFailure]
    shards: ShardSpec | None
    read_at: Instant
    crawl: CrawlState | None = None

    @property
    def is_finished(self) -> bool:
        return is_finished(self.counts, self.group.is_closed)

    @property
    def expected_members(self) -> int:
        """Number of members there should be: shards that retention removed are counted as missing."""
        return self.counts.total if self.shards is None else max(self.shards.shards, self.counts.total)

    @property
    def is_complete(self) -> bool:
        if self.crawl is not None:
            # Even if members were lost, the others did the work.
            return self.crawl.finished_at is not None
        return self.counts.completed == self.expected_members > 0

    @property
    def rate_per_s(self) -> float | None:
        """Members that ended per second so far. For a group that was finished before, the elapsed time is
        meaningless."""
        elapsed_ms = self.read_at - self.group.created_at
        if self.group.finishes or not self.counts.ended or elapsed_ms <= 0:
            return None
        return self.counts.ended * 1_000 / elapsed_ms

    @property
    def left_s(self) -> float | None:
        rate = self.rate_per_s
        return None if rate is None or not self.counts.open else self.counts.open / rate


class MemberChanges(NamedTuple):
    """The changes of some members, and the member after which to go on; None at the end."""

    applied: Applied
    after: TaskId | None


class Groups:
    def __init__(
        self,
        *,
        store: CompositeStore,
        submit: Submit,
        task_changes: TaskChanges,
        id_factory: IdFactory,
        clock: Clock,
    ) -> None:
        self._store = store
        self._submit = submit
        self._task_changes = task_changes
        self._ids = id_factory
        self._clock = clock

    async def create_group(
        self, request: GroupRequest, bodies: Sequence[TaskBody | Refusal], *, scope: str = "", key: str | None = None
    ) -> SubmissionAnswer:
        """Create the group and its members in one transaction, all or nothing; members are in the order of `bodies`."""
        spec = None if request.shards is None else msgspec.json.encode(request.shards)
        new = NewGroup(
            self._ids.new_id(), request.project, request.name, request.kind, request.is_closed, spec, request.crawl
        )
        members = [_member_body(body, request.project) for body in bodies]
        return await self._submit.submit_tasks(members, is_atomic=True, scope=scope, key=key, group=new)

    async def get_group(self, group: GroupId) -> Group:
        record = (await self._store.load_groups([group])).get(group)
        if record is None:
            raise NotFound(f"no group {group_text(group)}")
        return record

    async def get_plain_group(self, group: GroupId) -> Group:
        """Return the group. Raises IsFlow for a flow."""
        record = await self.get_group(group)
        if record.kind is GroupKind.FLOW:
            raise IsFlow(f"{group_text(group)} is a flow: it is cancelled, resumed and dropped as one")
        return record

    async def get_progress(self, group: GroupId) -> Progress:
        record = await self.get_group(group)
        counts = (await self._store.group_counts([group]))[group]
        is_clean = not counts.failed and not counts.timeout
        failures = [] if is_clean else await self._store.member_failures(group, FAILURES_SHOWN)
        crawls = await self._store.crawl_states([group]) if record.kind is GroupKind.CRAWL else {}
        return self._make_progress(record, counts, failures, crawls.get(group))

    async def list_groups(
        self, limit: int, before: GroupId | None = None, project: str | None = None, kind: GroupKind | None = None
    ) -> list[Progress]:
        """Return one page of groups with their progress, newest first."""
        groups = await self._store.list_groups(limit, before, project, kind)
        counts = await self._store.group_counts([group.id for group in groups])
        crawl_ids = [group.id for group in groups if group.kind is GroupKind.CRAWL]
        crawls = await self._store.crawl_states(crawl_ids) if crawl_ids else {}
        return [self._make_progress(group, counts[group.id], (), crawls.get(group.id)) for group in groups]

    def _make_progress(
        self, group: Group, counts: GroupCounts, failures: Sequence[MemberFailure], crawl: CrawlState | None
    ) -> Progress:
        shards = _SPEC.decode(group.spec) if group.kind is GroupKind.SHARDS and group.spec is not None else None
        return Progress(group, counts, failures, shards, self._clock.now(), crawl)

    async def close_group(self, group: GroupId) -> None:
        if not await self._store.close_group(group):
            raise NotFound(f"no group {group_text(group)}")

    async def cancel_members(self, group: GroupId, after: TaskId = 0) -> MemberChanges:
        """Cancel those of the next members that have not ended. No task may join meanwhile: close the group first."""
        members = await self._store.walk_members(group, after, PAGE)
        tasks = [task for task, is_open in members if is_open]
        applied = await self._task_changes.cancel_tasks(tasks, "its group was cancelled") if tasks else Applied()
        return MemberChanges(applied, members[-1][0] if len(members) == PAGE else None)

    async def retry_members(self, group: GroupId, statuses: Sequence[TaskStatus], after: TaskId = 0) -> MemberChanges:
        """Retry the next members that ended with these statuses, and only those: completed members stay as they are."""
        tasks = await self._store.ended_members(group, statuses, after, PAGE)
        applied = await self._task_changes.retry_tasks(tasks) if tasks else Applied()
        return MemberChanges(applied, tasks[-1] if len(tasks) == PAGE else None)

    async def remove_members(self, group: GroupId) -> bool:
        """Delete some members with their results, and after the last of them the group; returns whether the group is
        gone.

        Raises GroupOpen while a member has not ended.
        """
        members = await self._store.walk_members(group, 0, PAGE)
        if any(is_open for _, is_open in members):
            raise GroupOpen(f"{group_text(group)} has members that have not ended")
        if members:
            tasks = [task for task, _ in members]
            await self._store.drop_tasks(tasks, self._clock.now())
            return False
        return await self._store.remove_group(group)


def _member_body(body: TaskBody | Refusal, project: str) -> TaskBody | Refusal:
    if isinstance(body, Refusal):
        return body
    if body.group_id is not None:
        return Refusal(Code.INVALID_INPUT, "a task of a new group names no other", "group_id")
    if body.project_id is None:
        return msgspec.structs.replace(body, project_id=project or None)
    if body.project_id != project:
        of = f"project {project!r}" if project else "no project"
        return Refusal(Code.INVALID_INPUT, f"the group is of {of}", "project_id")
    return body
