"""Any verbs in any order, one after another and all at once: the tables stay in step with each other."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from crawlfleet.errors import NotFound
from crawlfleet.model.event import Event
from crawlfleet.model.execution import End, Failure, Outcome, ParkRequest
from crawlfleet.model.figures import task_figures as figures
from crawlfleet.model.ids import GroupId, NodeId, TaskId
from crawlfleet.model.status import ErrorClass, ExecutionStatus, NodeStatus, Recall, TaskStatus
from crawlfleet.model.task import LiveTask, RetryPolicy
from crawlfleet.ports.node_store import Renewal
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Assignment, NewGroup, Submission
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import schema
from testkit.factories import Dump, Kit
from testkit.figure_recount import event_differences, inner_differences, stored_figures

Row = dict[str, Any]

POLICY = RetryPolicy(2, 1.0, 5.0)
SAYS_STATUS = {
    "task.assigned": {TaskStatus.ASSIGNED},
    "task.started": {TaskStatus.PROCESSING},
    "task.recalled": {TaskStatus.ASSIGNED, TaskStatus.PROCESSING},
    "task.reassign": {TaskStatus.PENDING},
    "task.retrying": {TaskStatus.RETRYING},
    "task.parked": {TaskStatus.WAITING},
    "task.completed": {TaskStatus.COMPLETED},
    "task.failed": {TaskStatus.FAILED},
    "task.timeout": {TaskStatus.TIMEOUT},
    "task.cancelled": {TaskStatus.CANCELLED},
    "task.reopened": {TaskStatus.PENDING},
    "task.ready": {TaskStatus.PENDING},
    "task.submitted": {TaskStatus.PENDING, TaskStatus.WAITING},
    "task.dropped": set[TaskStatus](),
}
"""What a task is after the last event told of it."""
ENDS = {"task.completed", "task.failed", "task.timeout", "task.cancelled"}


async def any_sequence_of_verbs_keeps_the_tables_in_step(store: Store, kit: Kit) -> None:
    walk = _Walk(kit, store, seed=1)
    for _ in range(15):
        for _ in range(20):
            await walk.step()
        await _check(kit)
    await _check_events(kit)


async def any_verbs_at_once_keep_the_tables_in_step(store: Store, kit: Kit) -> None:
    await kit.term()
    first = _Walk(kit, store, seed=2)
    for _ in range(10):
        await first.step()
    walks = [_Walk(kit, (store, kit.second)[n % 2], seed=n, shared=first) for n in range(6)]
    for _ in range(3):
        await asyncio.gather(*(_several(walk, 15) for walk in walks))
        await _check(kit)
    await _check_events(kit)


async def _several(walk: "_Walk", steps: int) -> None:
    for _ in range(steps):
        await walk.step()


class _Walk:
    """One caller that does something at random, on what all callers know."""

    def __init__(self, kit: Kit, store: Store, seed: int, shared: "_Walk | None" = None) -> None:
        self._kit = kit
        self._store = store
        self._rng = Random(seed)
        self._tasks: list[TaskId] = shared._tasks if shared else []
        self._nodes: list[NodeId] = shared._nodes if shared else []
        self._groups: list[GroupId] = shared._groups if shared else []
        self._verbs: list[Callable[[], Awaitable[object]]] = [
            self._add,
            self._add,
            self._add,
            self._assign,
            self._assign,
            self._assign,
            self._complete,
            self._complete,
            self._finish,
            self._finish,
            self._start,
            self._cancel,
            self._recall,
            self._release,
            self._reopen,
            self._drop,
            self._join,
            self._open,
            self._renew,
            self._renew,
            self._end,
            self._fold,
            self._relay,
            self._prune,
            self._group,
            self._settle,
        ]

    async def step(self) -> None:
        self._kit.later(self._rng.randrange(1_000))
        try:
            await self._rng.choice(self._verbs)()
        except NotFound:
            pass

    def _some(self, most: int = 4) -> list[TaskId]:
        return [self._rng.choice(self._tasks) for _ in range(self._rng.randint(1, most))] if self._tasks else [1]

    async def _held(self) -> list[LiveTask]:
        held = await self._store.held_tasks(self._nodes) if self._nodes else {}
        rows = [row for rows in held.values() for row in rows]
        return self._rng.sample(rows, min(len(rows), self._rng.randint(1, 5)))

    async def _add(self) -> None:
        new = [
            self._kit.new_task(
                parents=self._some(2) if self._rng.random() < 0.4 else (),
                retry=POLICY,
                due_at=self._kit.now + 2_000 if self._rng.random() < 0.2 else None,
                group=self._rng.choice(self._groups) if self._groups and self._rng.random() < 0.6 else None,
            )
            for _ in range(self._rng.randint(1, 5))
        ]
        await self._store.add_tasks([Submission(new, is_atomic=self._rng.random() < 0.2)], self._kit.now)
        self._tasks += [task.id for task in new]

    async def _group(self) -> None:
        new = NewGroup(self._kit.ids.new_id(), self._kit.lane.project, is_closed=self._rng.random() < 0.2)
        tasks = [self._kit.new_task(group=new.id, retry=POLICY) for _ in range(self._rng.randint(0, 4))]
        await self._store.add_tasks([Submission(tasks, group=new)], self._kit.now)
        self._groups.append(new.id)
        self._tasks += [task.id for task in tasks]

    async def _settle(self) -> None:
        await self._store.settle_groups(await self._kit.term(), self._kit.now)

    async def _assign(self) -> None:
        heads = await self._store.ready_heads(self._kit.lane.id, 20)
        sessions = await self._store.open_leases()
        if heads and sessions:
            chosen = [*self._rng.sample(heads, min(5, len(heads))), *self._some(1)]
            nodes = [self._rng.choice(sessions) for _ in chosen]
            batch = [
                Assignment(task, self._kit.lane.id, self._kit.ids.new_id(), node.node, node.session)
                for task, node in zip(chosen, nodes, strict=True)
            ]
            await self._store.assign_tasks(batch, None, self._kit.now)

    async def _complete(self) -> None:
        await self._store.complete_executions(
            [self._outcome(row, End.COMPLETED) for row in await self._held()], self._kit.now
        )

    async def _finish(self) -> None:
        ends = [end for end in End if end is not End.COMPLETED]
        told = {row.id: self._outcome(row, self._rng.choice(ends)) for row in await self._held()}
        await self._store.change_tasks(
            list(told), task_state_machine.finish_execution(told, self._kit.now, self._rng), self._kit.now
        )

    def _outcome(self, row: LiveTask, end: End) -> Outcome:
        """Now and then of another execution or another node."""
        execution = row.execution if self._rng.random() < 0.9 else row.execution + 1
        node = row.node if self._rng.random() < 0.9 else self._rng.choice(self._nodes)
        failure = Failure(self._rng.choice(list(ErrorClass)), "it broke") if end is End.FAILED else None
        park = ParkRequest(self._rng.randint(1, 4_000)) if end is End.RETURNED and self._rng.random() < 0.5 else None
        return Outcome(node, row.id, execution, end, failure, park=park)

    async def _start(self) -> None:
        told = {
            row.id: task_state_machine.ExecutionStart(row.node, row.execution, self._kit.now)
            for row in await self._held()
        }
        await self._store.change_tasks(list(told), task_state_machine.start_execution(told), self._kit.now)

    async def _cancel(self) -> None:
        await self._store.change_tasks(self._some(), task_state_machine.cancel_task("no"), self._kit.now)

    async def _recall(self) -> None:
        why = self._rng.choice([Recall.DEADLINE, Recall.PREEMPT, Recall.MOVE])
        await self._store.change_tasks(self._some(), task_state_machine.recall_execution(why, "stop"), self._kit.now)

    async def _release(self) -> None:
        due = await self._store.due_tasks(self._kit.now, 10)
        await self._store.change_tasks(due, task_state_machine.release_due(self._kit.now), self._kit.now)

    async def _reopen(self) -> None:
        await self._store.reopen_tasks(self._some(), self._kit.now)

    async def _drop(self) -> None:
        await self._store.drop_tasks(self._some(1), self._kit.now)

    async def _join(self) -> None:
        self._nodes.append(await self._kit.join())

    async def _open(self) -> None:
        if self._nodes:
            node = self._rng.choice(self._nodes)
            decide = task_state_machine.lose_execution("new session", self._kit.now, self._rng)
            session, _ = await self._store.open_session(node, 10, ["echo"], decide, self._kit.now)
            await self._store.renew_leases([Renewal(node, session, 1, None)], self._kit.now)

    async def _renew(self) -> None:
        leases = await self._store.open_leases()
        renewals = [Renewal(lease.node, lease.session, lease.renewals + 1, None) for lease in leases]
        await self._store.renew_leases(renewals, self._kit.now)

    async def _end(self) -> None:
        if leases := await self._store.open_leases():
            lease = self._rng.choice(leases)
            decide = task_state_machine.lose_execution("lost", self._kit.now, self._rng)
            status = self._rng.choice([NodeStatus.OFFLINE, NodeStatus.UNRESPONSIVE])
            await self._store.end_session(lease.node, lease.session, status, decide, self._kit.now)

    async def _fold(self) -> None:
        await self._store.fold_counters(await self._kit.term())

    async def _relay(self) -> None:
        await self._store.relay_events(await self._kit.term(), 5)

    async def _prune(self) -> None:
        await self._store.prune_rows(await self._kit.term(), self._kit.now, 60_000, 10**12, 3)


async def _check(kit: Kit) -> None:
    assert await kit.second.task_totals() == await kit.second.count_rows()
    assert await kit.second.task_totals("shop") == await kit.second.count_rows("shop")
    dump = await kit.dump()
    live = {row["id"]: row for row in _rows(dump, "live")}
    done = {row["id"]: row for row in _rows(dump, "done")}
    await _check_groups(kit, dump)
    assert live.keys() | done.keys() == {row[0] for row in dump["task"]}
    assert not live.keys() & done.keys()
    _check_live_rows(dump, live)
    _check_history(dump, done)


async def _check_groups(kit: Kit, dump: Dump) -> None:
    """Counted as their rows say, and never finished while a member is open."""
    groups = {row["id"]: row for row in _rows(dump, "task_group")}
    members = {row["id"]: row["group_id"] for row in _rows(dump, "task") if row["group_id"] is not None}
    assert set(members.values()) <= groups.keys()
    for table in ("live", "done"):
        for row in _rows(dump, table):
            assert row["group_id"] == members.get(row["id"])
    counts = await kit.second.group_counts(list(groups))
    for group, row in groups.items():
        assert counts[group] == await kit.second.count_members(group)
        assert row["finished_at"] is None or not counts[group].open, row


def _check_live_rows(dump: Dump, live: dict[TaskId, Row]) -> None:
    is_open = {(row["node"], row["session"]) for row in _rows(dump, "lease") if row["is_open"]}
    waits = Counter(row["child"] for row in _rows(dump, "dependency") if row["child"] in live)
    for task, row in live.items():
        status = TaskStatus(row["status"])
        assert not status.is_final
        assert status.is_held == (row["node"] != 0) == (row["execution"] != 0), row
        assert not status.is_held or (row["node"], row["session"]) in is_open, row
        assert status in (TaskStatus.WAITING, TaskStatus.RETRYING) or (row["due_at"] is None and row["waits"] == 0), row
        assert status is not TaskStatus.WAITING or row["waits"] == waits[task], row
        assert status is not TaskStatus.WAITING or row["waits"] or row["due_at"] is not None, row
        assert row["retries"] <= POLICY.max_retries
        assert row["deaths"] < task_state_machine.POISON_DEATHS
    parked = {row["task"] for row in _rows(dump, "parking")}
    assert parked <= {task for task, row in live.items() if row["status"] == TaskStatus.WAITING and not row["waits"]}
    waited_for = {row["parent"] for row in _rows(dump, "dependency")}
    assert waited_for <= live.keys()


def _check_history(dump: Dump, done: dict[TaskId, Row]) -> None:
    completed: Counter[tuple[int, int]] = Counter()
    executions: dict[int, Row] = {}
    kept = [
        {"id": row["execution"], "task": task, "round": row["round"], "status": ExecutionStatus.COMPLETED}
        for task, row in done.items()
        if row["session"] is not None
    ]
    for row in [*_rows(dump, "execution"), *kept]:
        executions[row["id"]] = row
        completed[row["task"], row["round"]] += row["status"] == ExecutionStatus.COMPLETED
    assert max(completed.values(), default=0) <= 1
    for task, row in done.items():
        assert TaskStatus(row["status"]).is_final
        assert row["execution"] == 0 or executions[row["execution"]]["task"] == task
        assert completed[task, row["round"]] == (row["status"] == TaskStatus.COMPLETED)
    buried = {row["task"]: row["round"] for row in _rows(dump, "dead_letter")}
    dead = {task for task, row in done.items() if row["status"] in (TaskStatus.FAILED, TaskStatus.TIMEOUT)}
    assert buried == {task: done[task]["round"] for task in dead}


async def _check_figures(kit: Kit, events: Sequence[Event]) -> None:
    """Figures equal the events, before and after a fold, in every kind of series and every span."""
    stored = await stored_figures(kit.second)
    assert event_differences(stored, events) == []
    rows = await kit.second.count_rows()
    removed = stored[figures.SUBMITTED] - sum(rows.values())
    assert inner_differences(stored, rows, removed) == []
    while await kit.store.fold_counters(await kit.term()):
        pass
    assert await stored_figures(kit.second) == stored
    assert await kit.second.lane_totals() == await kit.second.count_lane_rows()
    totals = await kit.second.figure_totals()
    assert list(totals[figures.ALL].figures) == stored
    for kind in figures.LANE_KINDS:
        of_kind = await kit.second.figure_totals(kind)
        assert figures.sum_rows(total.figures for total in of_kind.values()) == stored
    for kind in figures.NODE_KINDS:
        of_kind = await kit.second.figure_totals(kind)
        by_node = figures.sum_rows(total.figures for total in of_kind.values())
        assert by_node[figures.ASSIGNED : figures.RETRIED] == stored[figures.ASSIGNED : figures.RETRIED]
    for span_s in figures.SPANS.values():
        history = await kit.second.figure_history(list(totals), span_s, 0, kit.now + 1, 10_000)
        for series, points in history.items():
            assert figures.sum_rows(point.figures for point in points) == list(totals[series].figures)


async def _check_events(kit: Kit) -> None:
    events = await kit.events()
    await _check_figures(kit, events)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    told: dict[TaskId, list[str]] = defaultdict(list)
    for event in events:
        if event.kind in SAYS_STATUS:
            told[event.data["task"]].append(event.kind)
    for task, record in (await kit.second.load_tasks(list(told))).items():
        assert record.status in SAYS_STATUS[told[task][-1]], (record, told[task])
    finishes = Counter(event.data["group"] for event in events if event.kind == "group.finished")
    for group in await kit.second.list_groups(1_000):
        assert group.finishes == finishes[group.id]
    for kinds in told.values():
        for one_round in " ".join(kinds).split("task.reopened"):
            assert sum(kind in ENDS for kind in one_round.split()) <= 1, kinds


def _rows(dump: Dump, table: str) -> list[Row]:
    names = [column.name for column in schema.metadata.tables[table].columns]
    return [dict(zip(names, row, strict=True)) for row in dump[table]]
