"""Explains why a task is not running: one sentence for a person, and the same as data.

Made on demand from a snapshot of durable state, by the same filters that placement uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, assert_never

from crawlfleet.model.ids import NodeId, TaskId, execution_text, node_text, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MIN
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Recall, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.scheduling.explain.hosts import HostWait
from crawlfleet.scheduling.explain.placement_reason import PlacementReason
from crawlfleet.scheduling.explain.wording import instant_text, span_text, times_text, when_text
from crawlfleet.scheduling.placement.filters import (
    Ask,
    NodeState,
    first_refusal,
    is_full_word,
    is_too_small,
    lacks_capability,
)
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation
from crawlfleet.scheduling.quotas.project_quota import QuotaViolation

_NAMED_PARENTS = 3

_PHRASES = {
    "wrong_node": "not the node it is for",
    "wrong_task_type": "wrong task type",
    "wrong_cluster": "in another cluster",
    "cluster_reserved": "reserved for another project",
    "wrong_node_type": "wrong node type",
    "lacks": "no {}",
    "too_little": "too little {}",
    "wrong_category": "for other categories",
    "too_small": "too small ({})",
    "wrong_region": "in another region",
    "cluster_inactive": "in an inactive cluster",
    "cluster_maintenance": "in a cluster in maintenance",
    "node_pending": "not yet synced",
    "node_maintenance": "in maintenance",
    "node_leaving": "leaving",
    "node_offline": "offline",
    "node_unresponsive": "unresponsive",
    "no_session": "without a session",
    "unhealthy": "unhealthy",
    "no_pull": "not pulling now",
    "not_pulled": "pulling other tasks",
    "no_slot": "full",
    "on_trial": "on trial after failing where others did not",
    "no_room": "no {} left",
    "memory_exhausted": "nearly out of memory",
}

_LACKS = ("lacks", "too_little", "too_small")

_RECALLS = {
    Recall.NONE: "",
    Recall.CANCEL: "it was cancelled",
    Recall.DEADLINE: "its time is over",
    Recall.PREEMPT: "its place is needed for more important work",
    Recall.MOVE: "it is moved to another node",
}

_FINAL = {
    TaskStatus.COMPLETED: "it is completed",
    TaskStatus.FAILED: "it has failed",
    TaskStatus.TIMEOUT: "it took too long",
    TaskStatus.CANCELLED: "it was cancelled",
}


@dataclass(frozen=True, slots=True)
class PlacementExplanation:
    """Why the nodes refuse a class of tasks, as a sentence and as counts."""

    sentence: str
    nodes: int
    able: int
    """Number of nodes that could take one such task now."""
    full: int
    """Number of suitable nodes that have no room now."""
    refusals: Mapping[str, int]
    """Number of nodes by refusal word, most first."""
    also_missing: Sequence[str] = ()
    """Requirements that none of the lacking nodes meets either: a node is counted by the first thing only."""

    def as_data(self) -> dict[str, Any]:
        data = {"nodes": self.nodes, "able": self.able, "full": self.full, "refusals": dict(self.refusals)}
        return data | ({"also_missing": list(self.also_missing)} if self.also_missing else {})


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `why`: one sentence for a person, and the same as data."""

    sentence: str
    data: dict[str, Any]
    """Data fit for JSON: `status` and `cause` always, then what the cause is about."""


class PreemptionHistory(NamedTuple):
    """How often a task was preempted in its round, and for which task the last time."""

    times: int
    waiter: TaskId


def explain_placement(
    requirement: Requirement,
    project: str,
    nodes: Sequence[NodeState],
    overcommit: float = 1.0,
    priority: int = PRIORITY_MIN,
) -> PlacementExplanation:
    ask = Ask(requirement, project, overcommit, priority)
    refusal_counts = Counter(first_refusal(state, ask) for state in nodes)
    able = refusal_counts.pop(None, 0)
    refusals = {
        str(word): count for word, count in sorted(refusal_counts.items(), key=lambda item: (-item[1], str(item[0])))
    }
    full = sum(count for word, count in refusals.items() if is_full_word(word))
    missing = [] if able else _also_missing(ask, nodes, refusals)
    total = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    if not nodes:
        sentence = "no node has joined"
    elif able:
        sentence = f"{able} of {total} could take it now: it is placed when its turn comes"
    else:
        sentence = f"0 of {total}: " + ", ".join(f"{count} {refusal_phrase(word)}" for word, count in refusals.items())
        sentence += f"; also missing: {', '.join(missing)}" if missing else ""
    return PlacementExplanation(sentence, len(nodes), able, full, refusals, missing)


def _also_missing(ask: Ask, nodes: Sequence[NodeState], named: Mapping[str, int]) -> list[str]:
    """What else is missing, so that a person who mends what was named first does not then find the next thing."""
    lacking = [state for state in nodes if (first_refusal(state, ask) or "").partition(":")[0] in _LACKS]
    single_asks = [
        *((part[0], _ask_only(ask, capabilities=(part,)), lacks_capability) for part in ask.requirement.capabilities),
        *((part[0], _ask_only(ask, resources=(part,)), is_too_small) for part in ask.requirement.resources),
    ]
    subjects = {word.partition(":")[2].partition("/")[0] for word in named}
    return [
        name
        for name, part, refuses in single_asks
        if name not in subjects and lacking and all(refuses(state, part) for state in lacking)
    ]


def _ask_only(ask: Ask, **part: Any) -> Ask:
    return ask._replace(requirement=replace(ask.requirement, **({"capabilities": (), "resources": ()} | part)))


def refusal_phrase(refusal: str) -> str:
    """A refusal word as people read it, after a number of nodes."""
    word, _, subject = refusal.partition(":")
    return _PHRASES.get(word, word).format(subject)


def explain_task(
    task: TaskRecord,
    lane: Lane,
    *,
    is_queue_paused: bool,
    parents: Mapping[TaskId, TaskStatus | None],
    nodes: Sequence[NodeState],
    now: Instant,
    overcommit: float = 1.0,
    quota: QuotaViolation | DailyQuotaViolation | None = None,
    placement_reason: PlacementReason | None = None,
    stopping: Sequence[NodeId] = (),
    preempted: PreemptionHistory | None = None,
    hosts: Sequence[HostWait] = (),
) -> Explanation:
    """Explain any task in any state. `parents` are those it still waits for; `nodes` are all that are known; `quota` is
    the one of its project that it would violate; `placement_reason` is why its node has it; `stopping` has the node of
    each task that was recalled for this one; `hosts` are those that hold up a task that runs."""
    match task.status:
        case TaskStatus.WAITING:
            return _why_waiting(task, parents, now)
        case TaskStatus.RETRYING:
            failures = task.retries + task.deaths
            retried = f"is tried again {when_text(task.due_at, now)}"
            sentence = f"failed {times_text(failures)}{_after_colon(task.reason)}; {retried}"
            return _why(
                task, "retry", sentence, retry_at=instant_text(task.due_at), failures=failures, reason=task.reason
            )
        case TaskStatus.PENDING if is_queue_paused:
            return _why(task, "queue_paused", f"the queue {lane.queue} is paused", queue=lane.queue)
        case TaskStatus.PENDING if quota is not None:
            return _why(task, "quota", quota.sentence, **quota.as_data())
        case TaskStatus.PENDING:
            explanation = explain_placement(lane.requirement, task.project, nodes, overcommit, lane.priority)
            if stopping and not explanation.able:
                return _why_making_room(task, explanation, stopping, nodes)
            sentence, data = explanation.sentence, {"placement": explanation.as_data()} | _preemption_data(preempted)
            if preempted is not None:
                sentence += f"; it made room for {task_text(preempted.waiter)} (stopped {times_text(preempted.times)})"
            return _why(task, "turn" if explanation.able else "no_node", sentence, **data)
        case TaskStatus.ASSIGNED | TaskStatus.PROCESSING:
            return _why_held(task, nodes, now, placement_reason, preempted, hosts)
        case TaskStatus.COMPLETED | TaskStatus.FAILED | TaskStatus.TIMEOUT | TaskStatus.CANCELLED:
            sentence = f"{_FINAL[task.status]}{_after_colon(task.reason)}"
            return _why(task, "final", sentence, ended_at=instant_text(task.ended_at), reason=task.reason)
        case _:
            assert_never(task.status)


def _why_waiting(task: TaskRecord, parents: Mapping[TaskId, TaskStatus | None], now: Instant) -> Explanation:
    if not task.waits and not parents:
        return _why(task, "time", f"starts {when_text(task.due_at, now)}", due_at=instant_text(task.due_at))
    count = max(task.waits, len(parents))
    named = [f"{task_text(parent)} ({_status(status)})" for parent, status in sorted(parents.items())[:_NAMED_PARENTS]]
    if named and count > len(named):
        named.append(f"{count - len(named)} more")
    sentence = f"waits for {count} task{'' if count == 1 else 's'} to complete"
    if named:
        sentence += ": " + ", ".join(named)
    if task.due_at is not None and task.due_at > now:
        sentence += f"; starts {when_text(task.due_at, now)} at the earliest"
    shown = {task_text(parent): _status(status) for parent, status in sorted(parents.items())}
    return _why(task, "parents", sentence, waits=count, parents=shown, due_at=instant_text(task.due_at))


def _why_making_room(
    task: TaskRecord, explanation: PlacementExplanation, stopping: Sequence[NodeId], nodes: Sequence[NodeState]
) -> Explanation:
    count, where = len(stopping), sorted(set(stopping))
    place = f"on {_node_name(where[0], nodes)}" if len(where) == 1 else f"on {len(where)} nodes"
    sentence = f"waits for {count} lower-priority task{'' if count == 1 else 's'} {place} to stop"
    shown = [node_text(node) for node in where]
    return _why(task, "making_room", sentence, stopping=count, nodes=shown, placement=explanation.as_data())


def _preemption_data(preempted: PreemptionHistory | None) -> dict[str, Any]:
    if preempted is None:
        return {}
    return {"preempted": {"times": preempted.times, "for": task_text(preempted.waiter)}}


def _why_held(
    task: TaskRecord,
    nodes: Sequence[NodeState],
    now: Instant,
    placement_reason: PlacementReason | None,
    preempted: PreemptionHistory | None,
    hosts: Sequence[HostWait],
) -> Explanation:
    name = _node_name(task.node, nodes)
    is_started = task.status is TaskStatus.PROCESSING
    since = task.started_at if is_started else task.assigned_at
    data: dict[str, Any] = {
        "node": None if task.node is None else node_text(task.node),
        "execution": None if task.execution is None else execution_text(task.execution),
        "since": instant_text(since),
    }
    if task.recall is not Recall.NONE:
        because = _RECALLS[task.recall]
        if task.recall is Recall.PREEMPT and preempted is not None:
            because = f"its place is needed for {task_text(preempted.waiter)}"
        sentence = f"{name} was told to stop it because {because}; waits until it has, or its lease ends"
        return _why(task, "recalled", sentence, recall=task.recall.word, **data, **_preemption_data(preempted))
    lasted = "" if since is None else f" for {span_text(now - since)}"
    data |= {} if placement_reason is None else {"choice": placement_reason.as_data()}
    reason = "" if placement_reason is None else f"; {placement_reason.sentence}"
    if is_started:
        data |= {"waits_for": [host.as_data() for host in hosts]} if hosts else {}
        held_up = "".join(f", {host.sentence}" for host in hosts)
        return _why(task, "processing", f"runs on {name}{lasted}{held_up}{reason}", **data)
    return _why(task, "assigned", f"assigned to {name}{lasted}, not started yet{reason}", **data)


def _why(task: TaskRecord, cause: str, sentence: str, **data: Any) -> Explanation:
    return Explanation(sentence, {"status": task.status.word, "cause": cause, **data})


def _node_name(node: NodeId | None, nodes: Sequence[NodeState]) -> str:
    if node is None:
        return "its node"
    return next((f"node {state.node.description.name}" for state in nodes if state.node.id == node), node_text(node))


def _status(status: TaskStatus | None) -> str:
    return "unknown" if status is None else status.word


def _after_colon(reason: str | None) -> str:
    return f": {reason}" if reason else ""
