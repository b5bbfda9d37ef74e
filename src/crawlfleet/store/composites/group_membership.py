"""Groups that the tasks of one transaction join: created, looked up and reopened.

A transaction that adds or reopens a member holds the row of its group until the commit. So the leader, which holds it
too, finds every open member counted when it decides that a group is finished, and once a group is closed no task is on
its way into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.group import Group
from crawlfleet.model.ids import GroupId, group_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.ports.task_store import NewGroup
from crawlfleet.store import schema
from crawlfleet.store.composites.crawls import add_crawl
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.row_codec import RowCodec
from crawlfleet.store.tasks.transaction_log import TransactionLog

LOCK_GROUPS = (
    "SELECT id, project, is_closed, finished_at FROM task_group WHERE id AMONG($1) ORDER BY id LOCK_ROWS(task_group)"
)
OPEN_AGAIN = "UPDATE task_group SET finished_at = NULL WHERE id AMONG($1)"
GROUPS = RowCodec(schema.task_group, Group)


class _LockedGroup(NamedTuple):
    project: str
    is_closed: bool
    is_finished: bool


class GroupMembership:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._groups: dict[GroupId, _LockedGroup] = {}
        self._new: dict[GroupId, NewGroup] = {}

    async def load_groups(self, groups: Iterable[GroupId | None]) -> None:
        wanted = sorted(group for group in groups if group is not None)
        if wanted:
            self._groups.update(await _lock_groups(self._tx, wanted))

    def create_group(self, new: NewGroup) -> None:
        """Create a group. Its first members may join it even if it is closed for all others."""
        self._groups[new.id] = _LockedGroup(new.project, is_closed=False, is_finished=False)
        self._new[new.id] = new

    def withdraw_group(self, new: NewGroup) -> None:
        del self._groups[new.id], self._new[new.id]

    def join_refusal(self, group: GroupId | None, project: str) -> Refusal | None:
        if group is None:
            return None
        locked = self._groups.get(group)
        if locked is None:
            return Refusal(Code.UNKNOWN_GROUP, f"{group_text(group)} does not exist", "group_id")
        if locked.project != project:
            of = f"project {locked.project!r}" if locked.project else "no project"
            return Refusal(Code.INVALID_INPUT, f"{group_text(group)} is of {of}", "group_id")
        if locked.is_closed:
            return Refusal(Code.GROUP_CLOSED, f"{group_text(group)} is closed", "group_id")
        return None

    async def write_groups(self, joined: Iterable[GroupId | None], tx_log: TransactionLog, now: Instant) -> None:
        if new_groups := list(self._new.values()):
            groups = [
                Group(
                    id=new.id,
                    project=new.project,
                    name=new.name,
                    kind=new.kind,
                    created_at=now,
                    is_closed=new.is_closed,
                    finished_at=None,
                    finishes=0,
                    spec=new.spec,
                )
                for new in new_groups
            ]
            await self._tx.insert(schema.task_group, GROUPS.columns, GROUPS.to_rows(groups))
            each: dict[str, list[Any]] = {
                "group": [new.id for new in new_groups],
                "name": [new.name for new in new_groups],
                "kind": [new.kind.word for new in new_groups],
            }
            tx_log.add_events(EventBatch(Kind.GROUP_CREATED, each))
            for new in new_groups:
                if new.crawl is not None:
                    await add_crawl(self._tx, new.id, new.crawl, now)
        finished = [group for group in joined if group is not None and self._groups[group].is_finished]
        if finished:
            await self._tx.execute(OPEN_AGAIN, finished)


async def reopen_groups(tx: Tx, groups: Iterable[GroupId]) -> None:
    """Reopen the groups of which a member is open again."""
    wanted = sorted(set(groups))
    if wanted:
        finished = [group for group, locked in (await _lock_groups(tx, wanted)).items() if locked.is_finished]
        if finished:
            await tx.execute(OPEN_AGAIN, finished)


async def _lock_groups(tx: Tx, groups: list[GroupId]) -> dict[GroupId, _LockedGroup]:
    rows = await tx.fetch(LOCK_GROUPS, groups)
    return {row[0]: _LockedGroup(row[1], bool(row[2]), row[3] is not None) for row in rows}
