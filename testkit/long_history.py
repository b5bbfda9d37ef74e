"""A store with a long history: many finished tasks and events behind the few that are live."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from types import ModuleType

from crawlfleet import store
from crawlfleet.model.daily_quota import Amounts, Want, day_of
from crawlfleet.model.evidence import EvidenceRow, Record
from crawlfleet.model.execution import End, ParkCause
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.queue import Lane
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Health, TaskStatus
from crawlfleet.model.task import FinalTask, LiveTask
from crawlfleet.ports.node_store import HealthChange, SlotChange
from crawlfleet.ports.queue_store import Preemption
from crawlfleet.ports.task_store import Claim, NewGroup, NewTask, Submission
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from crawlfleet.store.task_rows import ExecutionRow
from crawlfleet.store.tasks.task_insert import NEW_TASKS
from testkit.factories import START, Kit, ReadyNode

DAY_MS = 24 * 3_600_000
NODE, NODES = 7, 100
_IS_TEMPLATE = re.compile(r"\{\w+\}")
_IS_OF_A_DIALECT = re.compile(r"\.engine\.(sqlite|postgres|migrations)\b")
_IS_STATEMENT = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|WITH) ")


async def write_history(engine: QueryEngine, lane: Lane, count: int, *, alive: int = 20_000) -> None:
    """Write `count` completed tasks of the last month, each with two executions and an event; and many live ones, half
    of them pending and half on nodes."""
    at = START - 30 * DAY_MS
    ids = IdFactory(1_000, lambda: at)
    tasks, done, executions, events = [], [], [], []
    for n in range(count):
        at = START - 30 * DAY_MS + n * (30 * DAY_MS // count)
        task, failed, execution = ids.take(3)
        tasks.append(_new_task(task, lane, at))
        done.append((*task_rows.DONE.to_row(_completed(task, lane, execution, at)), 1, b"{}", None))
        executions.append(_failed(failed, task, at))
        events.append((n + 1, 1, at, row_codec.encode_json([("task.completed", {"task": [task]}, {})])))
    live: list[LiveTask] = []
    for n, (task, execution) in enumerate(zip(ids.take(alive), ids.take(alive), strict=True)):
        tasks.append(_new_task(task, lane, at))
        live.append(_pending(task, lane) if n % 2 else _held(task, lane, execution, NODE + n % NODES))

    async def work(tx: Tx) -> None:
        await tx.insert(schema.task, NEW_TASKS.columns, NEW_TASKS.to_rows(tasks))
        await tx.insert(schema.done, task_rows.COMPLETED_COLUMNS, done)
        await tx.insert(schema.execution, task_rows.EXECUTION_COLUMNS, executions)
        await tx.insert(schema.event_log, ("first", "count", "at", "body"), events)
        await tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(live))

    await engine.write(work)


def _new_task(task: int, lane: Lane, at: int) -> NewTask:
    return NewTask(task, lane.project, None, None, at, b"{}", None, lane.id, lane.priority, timeout_s=60)


def _pending(task: int, lane: Lane) -> LiveTask:
    return LiveTask.new(task, lane.id, 60)


def _held(task: int, lane: Lane, execution: int, node: int) -> LiveTask:
    return _pending(task, lane)._replace(
        status=TaskStatus.ASSIGNED,
        node=node,
        session=1,
        execution=execution,
        assigned_at=START,
        deadline_at=START + DAY_MS,
    )


def _completed(task: int, lane: Lane, execution: int, at: int) -> FinalTask:
    ended = _held(task, lane, execution, NODE)._replace(status=TaskStatus.COMPLETED, assigned_at=at, started_at=at)
    return FinalTask.of(ended, None, at + 1_000)


def _failed(execution: int, task: int, at: int) -> ExecutionRow:
    return ExecutionRow(
        id=execution,
        task=task,
        round=1,
        retry=0,
        node=NODE,
        session=1,
        status=int(ExecutionStatus.FAILED),
        assigned_at=at,
        started_at=at,
        ended_at=at + 1_000,
        error=int(ErrorClass.NETWORK),
        message="failed",
        is_permanent=0,
        result=None,
        metrics=None,
    )


async def use_every_hot_verb(kit: Kit) -> None:
    """Call every store method that masters use all the time, at least once; those only people use are left out."""
    known, term = kit.store, await kit.term()
    node = await kit.node()
    await known.renew_leases([], kit.now)
    plain, other, lost, failing = await kit.submit(4)
    claim = Claim(kit.lane.project, "key", b"body", kit.now + DAY_MS)
    await kit.add([kit.new_task(due_at=kit.now + 1)], claim=claim)
    child = await kit.submit_one(parents=[plain, other])
    done, back, gone, broken = await kit.assign([plain, other, lost, failing], node)
    await kit.start(done)
    await kit.renew(node, b"{}")
    await kit.complete(done, done._replace(execution=1))
    await kit.finish(back, End.RETURNED)
    await kit.fail(broken, error=ErrorClass.NETWORK)
    await kit.cancel(gone.task, child)
    await known.live_tasks([other])
    await known.held_tasks([node.id])
    await known.load_deliveries([other])
    await known.placement_view()
    for lane in await known.ready_lanes():
        await known.ready_heads(lane, 100)
    await known.load_lanes([kit.lane.id])
    kit.later()
    await known.change_tasks(
        await known.due_tasks(kit.now, 100), task_state_machine.release_due(kit.now), kit.now, term
    )
    await known.change_tasks(
        [each.task for each in await known.overdue_tasks(kit.now, 100)],
        task_state_machine.recall_overdue(kit.now),
        kit.now,
        term,
    )
    await known.due_schedules(kit.now, 100)
    await known.next_due()
    waiter, stopped = await kit.submit(2)
    (run,) = await kit.assign([stopped], node)
    await known.preempt_executions([Preemption(run.task, run.execution, 1, node.id, waiter)], term, kit.now)
    await known.stopping_executions()
    await known.task_preemptions([run.task])
    await known.preemptions_since(kit.now)
    await known.scale_slots([SlotChange(node.id, 10, 12, "more")], term, kit.now)
    await known.open_leases()
    await known.set_health([HealthChange(node.id, Health.UNKNOWN, Health.HEALTHY, {})], term, kit.now)
    await known.add_heartbeats([(node.id, b"{}")], term, kit.now)
    await known.record_beat(term)
    await known.read_leader()
    await known.relay_events(term, 100)
    await known.last_event()
    await known.events_after(10, 100)
    await known.fold_counters(term)
    await _learn(kit, [plain, failing], node)
    await known.task_totals()
    group = NewGroup(kit.ids.one(), kit.lane.project)
    await known.add_tasks([Submission([kit.new_task(group=group.id)], group=group)], kit.now)
    await known.settle_groups(term, kit.now)
    await known.group_counts([group.id])
    await known.load_groups([group.id])
    await _retain(kit, term)
    await known.host_look(kit.now)
    await known.load_grants([node.id])
    await known.secret_hash(node.id)
    await known.load_tasks([plain, other])
    await known.task_executions(plain)
    await known.awaited_parents(child)
    await known.reopen_tasks([plain], kit.now)
    await kit.online(node.id)
    await kit.end(node)


async def _retain(kit: Kit, term: int) -> None:
    known, unused = kit.store, await kit.known_lane("seldom")
    for days in (40, 20):
        await known.prune_rows(term, kit.now, days * DAY_MS, days * DAY_MS, 100)
    await known.lane_ids(-1, 1_000)
    await known.lanes_of_tasks(0, 1_000)
    await known.remove_unused_lanes(term, 1, [unused.id])
    await known.remove_unused_lanes(term, 2, [unused.id, kit.lane.id])
    # Written by a master that does not know of the mark.
    await SqlStore(kit.second.engine).ensure_lanes([kit.lane])


async def _park(kit: Kit, node: ReadyNode) -> None:
    known, cause, host = kit.store, ParkCause.HOST_BACKOFF, "slow.example"
    parked, early = await kit.run(node, 2)
    await kit.park(parked, 60_000, cause, host)
    await kit.park(early, 60_000, cause, host)
    await known.parked_tasks([parked.task])
    await known.parked_for(cause, host, 10)
    kit.later(10_000)
    await known.change_tasks(
        await known.parked_in_vain(kit.now, 1), task_state_machine.unpark_task, kit.now, await kit.term()
    )


async def _learn(kit: Kit, tasks: Sequence[int], node: ReadyNode) -> None:
    known, subject = kit.store, ("technology", "react")
    await known.want_evidence()
    found = await known.ended_runs(100)
    assert found is not None
    news = [EvidenceRow(node.id, subject, "", Record(ok=1.0, at=kit.now))]
    await known.fold_evidence(found, news, await kit.term())
    await known.task_contents(tasks)
    await known.task_parameters(tasks)
    await known.load_evidence([subject])
    await known.failed_nodes(tasks)
    await _park(kit, node)
    await _spend(kit, node)


async def _spend(kit: Kit, node: ReadyNode) -> None:
    known, project = kit.store, kit.lane.project
    run, parked = await kit.run(node, 2)
    await known.grant_slices([Want(node.id, run.task, run.execution, 1, Amounts(10, 10))], kit.now)
    await kit.finish_with(kit.outcome(run, End.RETURNED)._replace(used=Amounts(1, 1)))
    await known.day_uses([project], day_of(kit.now))
    await kit.park(parked, 60_000, ParkCause.DAILY_QUOTA, project)
    await known.parked_with_room(kit.later(10_000), 10)


def statement_constants(*dialect: ModuleType) -> dict[str, str]:
    """Return the SQL statements at the top of the store's modules, and of the dialect's, by name."""
    found = pkgutil.walk_packages(store.__path__, f"{store.__name__}.")
    here = [importlib.import_module(module.name) for module in found if not _IS_OF_A_DIALECT.search(module.name)]
    return {
        f"{module.__name__}.{name}": value
        for module in (*here, *dialect)
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str) and _IS_STATEMENT.match(value)
        if not _IS_TEMPLATE.search(value)
    }
