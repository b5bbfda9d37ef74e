"""A store with a long history: many finished tasks and events behind the few that are live."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from types import ModuleType

from crawlfleet import store
from crawlfleet.model.daily_quota import Amounts, SliceRequest, utc_day
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
    instant = START - 30 * DAY_MS
    ids = IdFactory(1_000, lambda: instant)
    tasks, done, executions, events = [], [], [], []
    for n in range(count):
        instant = START - 30 * DAY_MS + n * (30 * DAY_MS // count)
        task, failed, execution = ids.new_ids(3)
        tasks.append(_new_task(task, lane, instant))
        done.append((*task_rows.DONE.to_row(_completed(task, lane, execution, instant)), 1, b"{}", None))
        executions.append(_failed(failed, task, instant))
        events.append((n + 1, 1, instant, row_codec.encode_json([("task.completed", {"task": [task]}, {})])))
    live: list[LiveTask] = []
    for n, (task, execution) in enumerate(zip(ids.new_ids(alive), ids.new_ids(alive), strict=True)):
        tasks.append(_new_task(task, lane, instant))
        live.append(_pending(task, lane) if n % 2 else _held(task, lane, execution, NODE + n % NODES))

    async def work(tx: Tx) -> None:
        await tx.insert(schema.task, NEW_TASKS.columns, NEW_TASKS.to_rows(tasks))
        await tx.insert(schema.done, task_rows.COMPLETED_COLUMNS, done)
        await tx.insert(schema.execution, task_rows.EXECUTION_COLUMNS, executions)
        await tx.insert(schema.event_log, ("first", "count", "at", "body"), events)
        await tx.insert(schema.live, task_rows.LIVE_COLUMNS, task_rows.LIVE.to_rows(live))

    await engine.write(work)


def _new_task(task: int, lane: Lane, instant: int) -> NewTask:
    return NewTask(task, lane.project, None, None, instant, b"{}", None, lane.id, lane.priority, timeout_s=60)


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


def _completed(task: int, lane: Lane, execution: int, instant: int) -> FinalTask:
    ended = _held(task, lane, execution, NODE)._replace(
        status=TaskStatus.COMPLETED, assigned_at=instant, started_at=instant
    )
    return FinalTask.from_live(ended, None, instant + 1_000)


def _failed(execution: int, task: int, instant: int) -> ExecutionRow:
    return ExecutionRow(
        id=execution,
        task=task,
        round=1,
        retry=0,
        node=NODE,
        session=1,
        status=int(ExecutionStatus.FAILED),
        assigned_at=instant,
        started_at=instant,
        ended_at=instant + 1_000,
        error=int(ErrorClass.NETWORK),
        message="failed",
        is_permanent=0,
        result=None,
        metrics=None,
    )


async def use_every_hot_verb(kit: Kit) -> None:
    """Call every store method that masters use all the time, at least once; those only people use are left out."""
    store, term = kit.store, await kit.term()
    node = await kit.node()
    await store.renew_leases([], kit.now)
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
    await store.live_tasks([other])
    await store.held_tasks([node.id])
    await store.load_deliveries([other])
    await store.placement_view()
    for lane in await store.ready_lanes():
        await store.ready_heads(lane, 100)
    await store.load_lanes([kit.lane.id])
    kit.later()
    await store.change_tasks(
        await store.due_tasks(kit.now, 100), task_state_machine.release_due(kit.now), kit.now, term
    )
    await store.change_tasks(
        [each.task for each in await store.overdue_tasks(kit.now, 100)],
        task_state_machine.recall_overdue(kit.now),
        kit.now,
        term,
    )
    await store.due_schedules(kit.now, 100)
    await store.next_due()
    waiter, stopped = await kit.submit(2)
    (run,) = await kit.assign([stopped], node)
    await store.preempt_executions([Preemption(run.task, run.execution, 1, node.id, waiter)], term, kit.now)
    await store.stopping_executions()
    await store.task_preemptions([run.task])
    await store.preemptions_since(kit.now)
    await store.scale_slots([SlotChange(node.id, 10, 12, "more")], term, kit.now)
    await store.open_leases()
    await store.set_health([HealthChange(node.id, Health.UNKNOWN, Health.HEALTHY, {})], term, kit.now)
    await store.add_heartbeats([(node.id, b"{}")], term, kit.now)
    await store.record_beat(term)
    await store.read_leader()
    await store.relay_events(term, 100)
    await store.last_event()
    await store.events_after(10, 100)
    await store.fold_counters(term)
    await _learn(kit, [plain, failing], node)
    await store.task_totals()
    group = NewGroup(kit.ids.new_id(), kit.lane.project)
    await store.add_tasks([Submission([kit.new_task(group=group.id)], group=group)], kit.now)
    await store.settle_groups(term, kit.now)
    await store.group_counts([group.id])
    await store.load_groups([group.id])
    await _retain(kit, term)
    await store.host_look(kit.now)
    await store.load_grants([node.id])
    await store.secret_hash(node.id)
    await store.load_tasks([plain, other])
    await store.task_executions(plain)
    await store.awaited_parents(child)
    await store.reopen_tasks([plain], kit.now)
    await kit.online(node.id)
    await kit.end(node)


async def _retain(kit: Kit, term: int) -> None:
    store, unused = kit.store, await kit.known_lane("seldom")
    for days in (40, 20):
        await store.prune_rows(term, kit.now, days * DAY_MS, days * DAY_MS, 100)
    await store.lane_ids(-1, 1_000)
    await store.lanes_of_tasks(0, 1_000)
    await store.remove_unused_lanes(term, 1, [unused.id])
    await store.remove_unused_lanes(term, 2, [unused.id, kit.lane.id])
    # Written by a master that does not know of the mark.
    await SqlStore(kit.second.engine).ensure_lanes([kit.lane])


async def _park(kit: Kit, node: ReadyNode) -> None:
    store, cause, host = kit.store, ParkCause.HOST_BACKOFF, "slow.example"
    parked, early = await kit.run(node, 2)
    await kit.park(parked, 60_000, cause, host)
    await kit.park(early, 60_000, cause, host)
    await store.parked_tasks([parked.task])
    await store.parked_for(cause, host, 10)
    kit.later(10_000)
    await store.change_tasks(
        await store.parked_in_vain(kit.now, 1), task_state_machine.unpark_task, kit.now, await kit.term()
    )


async def _learn(kit: Kit, tasks: Sequence[int], node: ReadyNode) -> None:
    store, subject = kit.store, ("technology", "react")
    await store.want_evidence()
    ended_runs = await store.ended_runs(100)
    assert ended_runs is not None
    evidence = [EvidenceRow(node.id, subject, "", Record(ok=1.0, at=kit.now))]
    await store.fold_evidence(ended_runs, evidence, await kit.term())
    await store.task_contents(tasks)
    await store.task_parameters(tasks)
    await store.load_evidence([subject])
    await store.failed_nodes(tasks)
    await _park(kit, node)
    await _spend(kit, node)


async def _spend(kit: Kit, node: ReadyNode) -> None:
    store, project = kit.store, kit.lane.project
    run, parked = await kit.run(node, 2)
    await store.grant_slices([SliceRequest(node.id, run.task, run.execution, 1, Amounts(10, 10))], kit.now)
    await kit.finish_with(kit.outcome(run, End.RETURNED)._replace(used=Amounts(1, 1)))
    await store.day_uses([project], utc_day(kit.now))
    await kit.park(parked, 60_000, ParkCause.DAILY_QUOTA, project)
    await store.parked_with_room(kit.later(10_000), 10)


def statement_constants(*dialect: ModuleType) -> dict[str, str]:
    """Return the SQL statements at the top of the store's modules, and of the dialect's, by name."""
    modules = pkgutil.walk_packages(store.__path__, f"{store.__name__}.")
    here = [importlib.import_module(module.name) for module in modules if not _IS_OF_A_DIALECT.search(module.name)]
    return {
        f"{module.__name__}.{name}": value
        for module in (*here, *dialect)
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str) and _IS_STATEMENT.match(value)
        if not _IS_TEMPLATE.search(value)
    }
