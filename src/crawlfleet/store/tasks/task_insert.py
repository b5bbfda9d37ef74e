"""The insertion of tasks: idempotency, parents, and the rows, in one transaction for many callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, repeat, starmap
from operator import itemgetter
from typing import Any

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import FinalTask, LiveTask
from crawlfleet.ports.task_store import Accepted, Added, Claim, NewTask, Submission, SubmissionAnswer
from crawlfleet.scheduling.quotas.project_quota import SubmitQuota
from crawlfleet.store import schema, task_rows
from crawlfleet.store.composites.group_membership import GroupMembership
from crawlfleet.store.engine.transaction import PENDING_COLUMNS, Engine, Row, Tx
from crawlfleet.store.projects.project_quotas import load_submit_quotas
from crawlfleet.store.row_codec import row_writer
from crawlfleet.store.tasks.idempotency import EXPIRED_KEYS, KNOWN_KEYS, stored_key
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.transaction_log import TransactionLog
from crawlfleet.store.tasks.transitions import parent_ended

_TASK_FIELDS = {
    "id": "id",
    "project": "project",
    "workflow": "workflow",
    "name": "name",
    "created_at": "created_at",
    "parameters": "parameters",
    "spec": "spec",
    "group_id": "group",
}
"""Columns of `task`, with the fields of a new task that are stored in them unchanged."""
NEW_TASKS = row_writer(schema.task, NewTask, _TASK_FIELDS)
_TASK_PLACES = [(column, NewTask._fields.index(field)) for column, field in _TASK_FIELDS.items()]
# Share-locked, so that a parent cannot end between being read here and its child being inserted, when its end would
# not reach the child.
LIVE_PARENTS = "SELECT id FROM live WHERE id AMONG($1) ORDER BY id SHARE_KEYS(live)"
FINAL_PARENTS = "SELECT id, status FROM done WHERE id AMONG($1)"
KEPT_ANSWER = "SELECT body_hash, answer FROM idempotency WHERE key = $1 AND expires_at > $2"
FORGET_KEYS = "DELETE FROM idempotency WHERE key AMONG($1)"
_ONLY_TASKS = {NewTask}
_GROUP = itemgetter(NewTask._fields.index("group"))
_NO_GROUP = {None}
_PENDING_ID, _PENDING_LANE = (itemgetter(PENDING_COLUMNS.index(name)) for name in ("id", "lane"))
_PENDING, _WAITING, _CANCELLED = TaskStatus.PENDING, TaskStatus.WAITING, TaskStatus.CANCELLED


class AddTables:
    _engine: Engine
    _lanes: LaneBook

    async def add_tasks(self, submissions: Sequence[Submission], now: Instant) -> Added:
        return await self._engine.write(lambda tx: add_tasks(tx, self._lanes, submissions, now))

    async def stored_answer(self, claim: Claim, items: int, now: Instant) -> SubmissionAnswer | None:
        return await self._engine.read_by_key(lambda tx: stored_answer(tx, claim, items, now))


async def add_tasks(tx: Tx, lanes: LaneBook, submissions: Sequence[Submission], now: Instant) -> Added:
    """Add tasks in the transaction of a caller that has more to write in it."""
    return await _Adding(tx, lanes, now).add_submissions(submissions)


async def stored_answer(tx: Tx, claim: Claim, items: int, now: Instant) -> SubmissionAnswer | None:
    rows = await tx.fetch(KEPT_ANSWER, stored_key(claim), now)
    if not rows or rows[0][1] is None:
        return None
    body_hash, answer = rows[0]
    return task_rows.decode_answer(bytes(answer)) if bytes(body_hash) == claim.body_hash else _mismatch_answer(items)


class _Adding:
    def __init__(self, tx: Tx, lanes: LaneBook, now: Instant) -> None:
        self._tx = tx
        self._lanes = lanes
        self._now = now
        self._tx_log = TransactionLog()
        self._tasks: list[NewTask] = []
        self._pending: list[Row] = []
        self._live: list[LiveTask] = []
        self._done: list[FinalTask] = []
        self._edges: list[Row] = []
        self._parents: dict[TaskId, TaskStatus | None] = {}
        self._membership = GroupMembership(tx)

    async def add_submissions(self, submissions: Sequence[Submission]) -> Added:
        answers = await self._stored_answers(submissions)
        fresh = [position for position, answer in enumerate(answers) if answer is None]
        items = [item for position in fresh for item in submissions[position].items if isinstance(item, NewTask)]
        await self._lanes.keep_lanes(self._tx, {item.lane for item in items})
        await self._look_up_parents({parent for item in items for parent in item.parents})
        limited = {name for at in fresh for name in submissions[at].limited}
        doors = await load_submit_quotas(self._tx, self._lanes, limited, self._now)
        if (groups := set(map(_GROUP, items))) != _NO_GROUP:
            await self._membership.load_groups(groups)
        for position in fresh:
            answers[position] = self._quota_refusal(submissions[position], doors) or self._answer_submission(
                submissions[position]
            )
        await self._write_rows()
        await self._keep_answers(submissions, fresh, answers)
        settled = self._settle_twins(submissions, answers)
        return Added(settled, self._ready_by_lane())

    # -- idempotency

    async def _stored_answers(self, submissions: Sequence[Submission]) -> list[SubmissionAnswer | None]:
        """Return the answers that are already stored; None where this transaction has to make one."""
        answers: list[SubmissionAnswer | None] = [None] * len(submissions)
        self._twins: dict[int, int] = {}
        positions: dict[str, list[int]] = {}
        for position, submission in enumerate(submissions):
            if submission.claim is not None:
                positions.setdefault(_submission_key(submission), []).append(position)
        if not positions:
            return answers
        keys = sorted(positions)
        await self._tx.execute(EXPIRED_KEYS, keys, self._now)
        rows = []
        for key in keys:
            claim = submissions[positions[key][0]].claim
            assert claim is not None
            rows.append((key, claim.body_hash, None, claim.expires_at))
        await self._tx.insert_new(schema.idempotency, ("key", "body_hash", "answer", "expires_at"), rows)
        for key, body_hash, answer in await self._tx.fetch(KNOWN_KEYS, keys):
            if answer is not None:
                for position in positions.pop(key):
                    answers[position] = _replay_answer(submissions[position], bytes(body_hash), bytes(answer))
        for first, *others in positions.values():
            for position in others:
                self._twins[position] = first
                answers[position] = _TWIN
        return answers

    async def _keep_answers(
        self, submissions: Sequence[Submission], fresh: list[int], answers: list[SubmissionAnswer | None]
    ) -> None:
        stored, dropped = [], []
        for position in fresh:
            answer = answers[position]
            if submissions[position].claim is None or answer is None:
                continue
            # A request of which nothing was accepted does not use up its key: once corrected, it may use the key
            # again.
            if answer.group is not None or any(isinstance(item, Accepted) for item in answer.items):
                stored.append((_submission_key(submissions[position]), task_rows.encode_answer(answer)))
            else:
                dropped.append(_submission_key(submissions[position]))
        if stored:
            await self._tx.update(schema.idempotency, ("key", "answer"), stored)
        if dropped:
            await self._tx.execute(FORGET_KEYS, dropped)

    def _settle_twins(
        self, submissions: Sequence[Submission], answers: list[SubmissionAnswer | None]
    ) -> list[SubmissionAnswer]:
        """Answer submissions with the same key in one transaction: the second gets the answer of the first."""
        for position, first in self._twins.items():
            original, twin = submissions[first].claim, submissions[position].claim
            answer = answers[first]
            assert original is not None
            assert twin is not None
            assert answer is not None
            same = original.body_hash == twin.body_hash
            answers[position] = (
                replace(answer, is_replay=True) if same else _mismatch_answer(len(submissions[position].items))
            )
        return [answer for answer in answers if answer is not None]

    # -- tasks

    def _ready_by_lane(self) -> dict[LaneId, list[TaskId]]:
        ready: dict[LaneId, list[TaskId]] = {}
        for lane, rows in groupby(self._pending, key=_PENDING_LANE):
            ready.setdefault(lane, []).extend(map(_PENDING_ID, rows))
        for task in self._live:
            if task.status is _PENDING:
                ready.setdefault(task.lane, []).append(task.id)
        return ready

    async def _look_up_parents(self, wanted: set[TaskId]) -> None:
        if not wanted:
            return
        ids = sorted(wanted)
        self._parents = dict.fromkeys((row[0] for row in await self._tx.fetch(LIVE_PARENTS, ids)), None)
        for parent, status in await self._tx.fetch(FINAL_PARENTS, ids):
            self._parents[parent] = task_rows.STATUSES[status]
        if missing := [parent for parent in ids if parent not in self._parents]:
            # A person's retry may have moved a parent from the second table to the first between the two reads.
            self._parents.update((row[0], None) for row in await self._tx.fetch(LIVE_PARENTS, missing))

    def _answer_submission(self, submission: Submission) -> SubmissionAnswer:
        new = submission.group
        if new is None:
            return self._answer_items(submission)
        self._membership.create_group(new)
        answer = self._answer_items(submission)
        if any(isinstance(item, Refusal) for item in answer.items):
            self._membership.withdraw_group(new)
            return answer
        return replace(answer, group=new.id)

    def _answer_items(self, submission: Submission) -> SubmissionAnswer:
        if (answer := self._accept_plain(submission.items)) is not None:
            return answer
        refused = [self._item_refusal(item) for item in submission.items]
        if (submission.is_atomic or submission.group is not None) and any(refused):
            spared = Refusal(Code.BATCH_REFUSED, "another task of this batch was refused")
            return SubmissionAnswer([refusal or spared for refusal in refused])
        return SubmissionAnswer(
            [
                refusal or self._accept_item(item)  # type: ignore[arg-type]
                for refusal, item in zip(refused, submission.items, strict=True)
            ]
        )

    def _quota_refusal(self, submission: Submission, doors: Mapping[str, SubmitQuota]) -> SubmissionAnswer | None:
        """Refuse a submission that exceeds a quota; None when the quotas of all its projects allow it, and then they
        count its tasks from now on."""
        wanted = {project: list[Requirement]() for project in submission.limited if project in doors}
        for item in submission.items if wanted else ():
            if isinstance(item, NewTask) and item.project in wanted:
                wanted[item.project].append(self._lanes[item.lane].requirement)
        for project, requirements in wanted.items():
            if full := doors[project].violation(requirements):
                refusal = Refusal(Code.OVER_QUOTA, full)
                return SubmissionAnswer(
                    [refusal] * len(submission.items), over_quota=full, renews_at=doors[project].renews_at
                )
        for project, requirements in wanted.items():
            doors[project].reserve(requirements)
        return None

    def _accept_plain(self, items: Sequence[NewTask | Refusal]) -> SubmissionAnswer | None:
        """Accept a batch on the short path of nearly all batches, whose tasks are all valid and wait for nothing; None
        for others.

        It works by columns: a loop over the tasks would cost as much as writing them.
        """
        if set(map(type, items)) != _ONLY_TASKS:
            return None
        columns: Any = NewTask._make(zip(*items, strict=True))  # in each field the values of all tasks
        if any(columns.parents) or columns.due_at.count(None) < len(columns.due_at):
            return None
        if any(columns.group) and any(
            starmap(self._membership.join_refusal, set(zip(columns.group, columns.project, strict=True)))
        ):
            return None
        self._tasks += items  # type: ignore[arg-type]
        self._pending += zip(columns.id, columns.lane, columns.timeout_s, columns.group, strict=True)
        return SubmissionAnswer(list(map(Accepted, columns.id, repeat(_PENDING), columns.created_at, columns.priority)))

    def _item_refusal(self, item: NewTask | Refusal) -> Refusal | None:
        if isinstance(item, Refusal):
            return item
        for position, parent in enumerate(item.parents):
            if parent not in self._parents:
                field = f"depends_on[{position}]"
                return Refusal(Code.UNKNOWN_DEPENDENCY, f"{task_text(parent)} does not exist", field)
        return self._membership.join_refusal(item.group, item.project)

    def _accept_item(self, item: NewTask) -> Accepted:
        self._tasks.append(item)
        due_at = item.due_at if item.due_at is not None and item.due_at > self._now else None
        if due_at is None and not item.parents:
            self._pending.append((item.id, item.lane, item.timeout_s, item.group))
            return Accepted(item.id, _PENDING, item.created_at, item.priority)
        for parent in item.parents:
            ended = self._parents[parent]
            if ended is not None and ended is not TaskStatus.COMPLETED:
                return self._accept_cancelled(item, parent_ended(parent, ended))
        waits_for = [parent for parent in dict.fromkeys(item.parents) if self._parents[parent] is None]
        self._edges.extend((parent, item.id) for parent in waits_for)
        status = _WAITING if waits_for or due_at is not None else _PENDING
        return self._accept_live(item, status, due_at, len(waits_for))

    def _accept_live(self, item: NewTask, status: TaskStatus, due_at: Instant | None, waits: int) -> Accepted:
        self._live.append(
            LiveTask.new(
                item.id,
                item.lane,
                item.timeout_s,
                status=status,
                waits=waits,
                due_at=due_at,
                group=item.group,
                ready_at=self._now if status is _PENDING else None,
            )
        )
        return Accepted(item.id, status, item.created_at, item.priority)

    def _accept_cancelled(self, item: NewTask, reason: str) -> Accepted:
        task = LiveTask.new(item.id, item.lane, item.timeout_s, status=_CANCELLED, group=item.group)
        self._done.append(FinalTask.from_live(task, reason, self._now))
        return Accepted(item.id, _CANCELLED, item.created_at, item.priority)

    async def _write_rows(self) -> None:
        groups = set(map(_GROUP, self._tasks))
        await self._membership.write_groups(groups, self._tx_log, self._now)
        if self._tasks:
            await self._write_tasks()
            self._note_tasks()
            if groups != _NO_GROUP:
                self._note_members()
        await self._tx_log.write_log(self._tx, self._now)

    async def _write_tasks(self) -> None:
        # Most tasks have no workflow, no name, no spec and no group: columns without values are not sent.
        values = list(zip(*self._tasks, strict=True))
        columns = {name: values[place] for name, place in _TASK_PLACES}
        sent = {name: column for name, column in columns.items() if column.count(None) < len(column)}
        await self._tx.insert(schema.task, list(sent), list(zip(*sent.values(), strict=True)))
        if self._pending:
            await self._tx.add_pending(self._pending, self._now)
        if self._live:
            await self._tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(self._live))
        if self._done:
            await self._tx.insert(schema.done, task_rows.DONE_COLUMNS, task_rows.DONE.to_rows(self._done))
        if self._edges:
            await self._tx.insert(schema.dependency, ("parent", "child"), self._edges)

    def _note_tasks(self) -> None:
        for lane, count in Counter(map(_PENDING_LANE, self._pending)).items():
            self._tx_log.count_transition(lane, None, _PENDING, count)
        moved = Counter((task.lane, task.status) for task in self._live)
        moved.update((task.lane, task.status) for task in self._done)
        for (lane, status), count in moved.items():
            self._tx_log.count_transition(lane, None, status, count)
        self._tx_log.add_events(EventBatch(Kind.TASK_SUBMITTED, {"task": [task.id for task in self._tasks]}))
        if self._done:
            each: dict[str, list[Any]] = {
                "task": [task.id for task in self._done],
                "reason": [task.reason for task in self._done],
            }
            self._tx_log.add_events(EventBatch(Kind.TASK_CANCELLED, each))

    def _note_members(self) -> None:
        cancelled = Counter(task.group for task in self._done)
        for group, count in Counter(map(_GROUP, self._tasks)).items():
            if group is not None:
                self._tx_log.count_member(group, None, _PENDING, count - cancelled[group])
                self._tx_log.count_member(group, None, _CANCELLED, cancelled[group])


_TWIN = SubmissionAnswer([])


def _submission_key(submission: Submission) -> str:
    assert submission.claim is not None
    return stored_key(submission.claim)


def _replay_answer(submission: Submission, body_hash: bytes, answer: bytes) -> SubmissionAnswer:
    assert submission.claim is not None
    return (
        task_rows.decode_answer(answer)
        if submission.claim.body_hash == body_hash
        else _mismatch_answer(len(submission.items))
    )


def _mismatch_answer(items: int) -> SubmissionAnswer:
    detail = "this idempotency key was used with another body"
    refusal = Refusal(Code.IDEMPOTENCY_MISMATCH, detail, "Idempotency-Key")
    return SubmissionAnswer([refusal] * max(1, items))
