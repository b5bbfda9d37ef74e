"""Checks whether `why` is true: each cause it may give is compared with the store's rows and the placer itself.

This is for a store that is not written to meanwhile (tests, or the simulation, where a query suspends no task).
"""

from __future__ import annotations

from random import Random

from crawlfleet.bootstrap.master import Master
from crawlfleet.control.leader.node_states import node_states
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import Lane
from crawlfleet.model.status import Recall, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.explain.task import Explanation
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.quotas.project_quota import Allowance

_HELD = {TaskStatus.ASSIGNED: "assigned", TaskStatus.PROCESSING: "processing"}


async def untrue(master: Master, task: TaskId) -> str | None:
    """Return what is wrong with the answer; None when it is true. The master need not run."""
    master.configure.fresh_s = 0.0
    explanation = await master.why.explain_task(task)
    record = (await master.store.load_tasks([task]))[task]
    true = await _true_causes(master, record)
    if explanation.data["cause"] not in true or explanation.data["status"] != record.status.word:
        return f"{task_text(task)} is {record.status.word}, for {sorted(true)}, and says {explanation}"
    if complaint := await _untrue_data(master.store, record, explanation):
        return f"{task_text(task)} says {explanation}, but {complaint}"
    return None


async def _true_causes(master: Master, record: TaskRecord) -> set[str]:
    """Return the causes that would be true of the task; of several at once, the one to be reported first."""
    store, status = master.store, record.status
    if status.is_final:
        place = None if record.group is None else await store.place_in_flow(record.id)
        return {"final"} if place is None else {"final", "skipped", "broken"}
    if status is TaskStatus.RETRYING:
        return {"retry"}
    if status.is_held:
        return {_HELD[status]} if record.recall is Recall.NONE else {"recalled"}
    if status is TaskStatus.WAITING:
        return await _true_waits(store, record)
    (lane,) = await store.load_lanes([record.lane])
    if lane.queue in await store.paused_queues():
        return {"queue_paused"}
    if await _is_over_quota(store, lane):
        return {"quota"}
    if await _is_placeable(master, lane):
        return {"turn"}
    return {"making_room"} if await store.stopping_executions(record.id) else {"no_node"}


async def _true_waits(store: Store, record: TaskRecord) -> set[str]:
    if record.waits:
        place = None if record.group is None else await store.place_in_flow(record.id)
        return {"parents"} if place is None else {"steps", "items"}
    parking = (await store.parked_tasks([record.id])).get(record.id)
    return {"time"} if parking is None else {parking.cause.word}


async def _is_over_quota(store: Store, lane: Lane) -> bool:
    """Return whether the project is over a quota, by what the leader would still start."""
    project = await store.load_project(lane.project)
    uses = await store.project_uses([lane.project])
    return Allowance(project, uses[lane.project].held).count_allowed(lane.requirement) == 0


async def _is_placeable(master: Master, lane: Lane) -> bool:
    """Return whether the task could be placed, by the placer and not by the filters one by one."""
    overcommit = master.configure.cached_config(DEFAULT_CLUSTER).settings.overcommit
    states = await node_states(master.store, master.configure)
    return bool(Placer(states, rng=Random(0), overcommit=overcommit).place_tasks(lane.requirement, lane.project, 1))


async def _untrue_data(store: Store, record: TaskRecord, explanation: Explanation) -> str | None:
    """Return what is wrong in the data that the answer contains beside its cause."""
    match explanation.data["cause"]:
        case "no_node" | "turn" as cause:
            placement = explanation.data["placement"]
            nodes = len(await store.load_nodes())
            if placement["nodes"] != nodes or placement["able"] + sum(placement["refusals"].values()) != nodes:
                return f"there are {nodes} nodes"
            return None if bool(placement["able"]) == (cause == "turn") else "cause and nodes do not agree"
        case "parents":
            waits_for = await store.awaited_parents(record.id)
            return None if explanation.data["waits"] == len(waits_for) == record.waits else f"it waits for {waits_for}"
        case "time" | "retry":
            due_text = explanation.data["due_at" if explanation.data["cause"] == "time" else "retry_at"]
            return None if record.due_at is not None and due_text == to_text(record.due_at) else "its time is another"
        case "host_backoff" | "daily_quota" | "later":
            is_ahead = record.due_at is not None and explanation.data["until"] <= to_text(record.due_at)
            return None if is_ahead and explanation.data["parked"] > 0 else "it comes back before that"
        case _:
            return None
