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


class _Locked(NamedTuple):
    project: str
    is_closed: bool
    is_finished: bool


class Joining:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._known: dict[GroupId, _Locked] = {}
        self._new: dict[GroupId, NewGroup] = {}

    async def look_up(self, groups: Iterable[GroupId | None]) -> None:
        wanted = sorted(group for group in groups if group is not None)
        if wanted:
            self._known.update(await _locked(self._tx, wanted))

    def create(self, new: NewGroup) -> None:
        """Create a group. Its first members may join it even if it is closed for all others."""
        self._known[new.id] = _Locked(new.project, is_closed=False, is_finished=False)
        self._new[new.id] = new

    def withdraw(self, new: NewGroup) -> None:
        del self._known[new.id], self._new[new.id]

    def refusal(self, group: GroupId | None, project: str) -> Refusal | None:
        if group is None:
            return None
        known = self._known.get(group)
        if known is None:
            return Refusal(Code.UNKNOWN_GROUP, f"{group_text(group)} does not exist", "group_id")
        if known.project != project:
            of = f"project {known.project!r}" if known.project else "no project"
            return Refusal(Code.INVALID_INPUT, f"{group_text(group)} is of {of}", "group_id")
        if known.is_closed:
            return Refusal(Code.GROUP_CLOSED, f"{group_text(group)} is closed", "group_id")
        return None

    async def write(self, joined: Iterable[GroupId | None], tx_log: TransactionLog, now: Instant) -> None:
        if made := list(self._new.values()):
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
                for new in made
            ]
            await self._tx.insert(schema.task_group, GROUPS.columns, GROUPS.to_rows(groups))
            each: dict[str, list[Any]] = {
                "group": [new.id for new in made],
                "name": [new.name for new in made],
                "kind": [new.kind.word for new in made],
            }
            tx_log.add_events(EventBatch(Kind.GROUP_CREATED, each))
            for new in made:
                if new.crawl is not None:
                    await add_crawl(self._tx, new.id, new.crawl, now)
        again = [group for group in joined if group is not None and self._known[group].is_finished]
        if again:
            await self._tx.execute(OPEN_AGAIN, again)


async def open_again(tx: Tx, groups: Iterable[GroupId]) -> None:
    """Reopen the groups of which a member is open again."""
    wanted = sorted(set(groups))
    if wanted:
        finished = [group for group, known in (await _locked(tx, wanted)).items() if known.is_finished]
        if finished:
            await tx.execute(OPEN_AGAIN, finished)


async def _locked(tx: Tx, groups: list[GroupId]) -> dict[GroupId, _Locked]:
    rows = await tx.fetch(LOCK_GROUPS, groups)
    return {row[0]: _Locked(row[1], bool(row[2]), row[3] is not None) for row in rows}
