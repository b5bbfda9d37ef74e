"""Checks of work that waits: for what no node has, in paused queues, for too long, behind others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ClusterStatus
from crawlfleet.scheduling.doctor.findings import FoundProblem, note, warning
from crawlfleet.scheduling.doctor.snapshot import HistoryPart, LaneBacklog, NodePart, WorkPart
from crawlfleet.scheduling.doctor.wording import count_text, list_names, span_text
from crawlfleet.scheduling.placement.filters import CLASS_FILTERS, Ask, NodeState
from crawlfleet.scheduling.placement.node_classes import class_key

LONG_WAIT_MS = 3_600_000
URGENT_PRIORITY, URGENT_WAIT_MS = 8, 900_000
NEAR_TIMEOUT = 0.8
LEAST_ENDS = 20
LARGE_SHARE, LEAST_RUNNING = 0.8, 10
_MISSING = ("wrong_task_type", "lacks", "too_little")
"""Refusals of nodes that could be mended by installing something."""
_INSTALL = {
    "browser": "install the browser on a node: pip install 'crawlfleet[browser]', then playwright install chromium",
    "sandbox": "install bubblewrap on a node, where user namespaces are allowed",
}


class NodeClasses:
    """One node of each class of nodes that all class filters treat the same, with how many are connected."""

    def __init__(self, nodes: Sequence[Node], clusters: Sequence[Cluster]) -> None:
        by_name = {cluster.name: cluster for cluster in clusters}
        classes: dict[tuple[object, ...], tuple[NodeState, int, int]] = {}
        for node in nodes:
            cluster = by_name.get(node.description.cluster)
            status = ClusterStatus.ACTIVE if cluster is None else cluster.status
            state = NodeState(node, status, None if cluster is None else cluster.project)
            first, count, connected = classes.get(class_key(state), (state, 0, 0))
            classes[class_key(state)] = first, count + 1, connected + node.is_session_open
        self.states = list(classes.values())
        self._refusals: dict[tuple[Requirement, str], tuple[Counter[str], int, int]] = {}

    def find_refusals(self, waiting: LaneBacklog) -> tuple[Counter[str], int, int]:
        """Refusals by word with the number of nodes, and how many suitable nodes there are and are connected."""
        key = (waiting.lane.requirement, waiting.lane.project)
        if key not in self._refusals:
            self._refusals[key] = self._compare(Ask(*key))
        return self._refusals[key]

    def _compare(self, ask: Ask) -> tuple[Counter[str], int, int]:
        words: Counter[str] = Counter()
        suitable = connected = 0
        for state, count, open_sessions in self.states:
            refusal = next((word for refuses in CLASS_FILTERS if (word := refuses(state, ask))), None)
            if refusal is None:
                suitable += count
                connected += open_sessions
            else:
                words[refusal] += count
        return words, suitable, connected


def find_missing_capabilities(work: WorkPart, nodes: NodePart) -> Iterator[FoundProblem]:
    classes = NodeClasses(nodes.nodes, work.clusters)
    if not nodes.nodes:
        if waiting := sum(lane.waiting for lane in work.lanes):
            yield warning(
                f"{count_text(waiting, 'task')} wait and no node has joined",
                "crawlfleet token create --role enrol, then crawlfleet worker",
            )
        return
    counts: Counter[str] = Counter()
    for lane in work.lanes:
        words, suitable, _ = classes.find_refusals(lane)
        if not suitable and (missing := _missing_thing(lane, words)):
            counts[missing] += lane.waiting
    for missing, count in counts.most_common(10):
        yield warning(f"{count_text(count, 'task')} want {missing}, which no node has", _install_hint(missing))


def _missing_thing(lane: LaneBacklog, words: Counter[str]) -> str | None:
    """What all nodes lack, where the nearest of them lacks nothing else."""
    nearest = max(words, key=lambda word: (not word.startswith("wrong_task_type"), words[word]), default="")
    kind, _, detail = nearest.partition(":")
    if kind not in _MISSING:
        return None
    if kind == "wrong_task_type":
        return f"the type {lane.lane.requirement.task_type}"
    return f"the capability {detail}" if kind == "lacks" else f"more of the capability {detail}"


def _install_hint(missing: str) -> str:
    for word, hint in _INSTALL.items():
        if missing.endswith(word):
            return hint
    if missing.startswith("the type "):
        return "start a worker with the module that has it: crawlfleet worker --executors MODULE"
    return "set it on a node that has it: capabilities of a worker; crawlfleet node list"


def find_unplaceable_tasks(work: WorkPart, nodes: NodePart) -> Iterator[FoundProblem]:
    if not nodes.nodes:
        return
    classes = NodeClasses(nodes.nodes, work.clusters)
    never: Counter[str] = Counter()
    away = 0
    for lane in work.lanes:
        words, suitable, connected = classes.find_refusals(lane)
        if not suitable and _missing_thing(lane, words) is None:
            never[words.most_common(1)[0][0]] += lane.waiting
        elif suitable and not connected:
            away += lane.waiting
    hint = "crawlfleet task list --status pending, then crawlfleet task why TASK"
    if never:
        reasons = ", ".join(f"{word} {count:,}" for word, count in never.most_common(5))
        yield warning(
            f"{count_text(sum(never.values()), 'task')} that no node can ever run, by filter: {reasons}", hint
        )
    if away:
        yield warning(f"{count_text(away, 'task')} wait for nodes that are all away", "crawlfleet node list")


def find_paused_work(work: WorkPart, now: Instant) -> Iterator[FoundProblem]:
    waiting: Counter[str] = Counter()
    by_cluster: Counter[str] = Counter()
    for lane in work.lanes:
        waiting[lane.lane.queue] += lane.waiting
        if lane.lane.requirement.cluster is not None:
            by_cluster[lane.lane.requirement.cluster] += lane.waiting
    for queue, pause in sorted(work.paused.items()):
        if waiting[queue]:
            since = "" if pause.since is None else f" for {span_text((now - pause.since) / 1000)}"
            by = f" by {pause.by}" if pause.by else ""
            yield warning(
                f"queue {queue} is paused{since}{by}, with {count_text(waiting[queue], 'task')} waiting",
                f"crawlfleet queue resume {queue}",
            )
    for cluster in work.clusters:
        if cluster.status is not ClusterStatus.ACTIVE and by_cluster[cluster.name]:
            changed = cluster.changed_at
            since = "" if changed is None else f" for {span_text((now - changed) / 1000)}"
            yield warning(
                f"cluster {cluster.name} is {cluster.status.word}{since}, with "
                f"{count_text(by_cluster[cluster.name], 'task')} waiting for it",
                f"crawlfleet cluster set {cluster.name} --status active",
            )


def find_long_waits(work: WorkPart, now: Instant) -> Iterator[FoundProblem]:
    oldest: dict[int, Instant] = {}
    for lane in work.open_lanes:
        priority = lane.lane.priority
        oldest[priority] = min(oldest.get(priority, lane.oldest_at), lane.oldest_at)
    for priority, oldest_at in sorted(oldest.items(), reverse=True):
        waits_ms = now - oldest_at
        if waits_ms > (URGENT_WAIT_MS if priority >= URGENT_PRIORITY else LONG_WAIT_MS):
            yield warning(
                f"the oldest ready task of priority {priority} was submitted {span_text(waits_ms / 1000)} ago",
                "more nodes or slots, or a higher priority: crawlfleet task list --status pending",
            )


def find_short_timeouts(history: HistoryPart, work: WorkPart) -> Iterator[FoundProblem]:
    timeouts: dict[str, int] = {}
    for lane in work.lanes:
        if lane.timeout_s:
            task_type = lane.lane.requirement.task_type
            timeouts[task_type] = min(timeouts.get(task_type, lane.timeout_s), lane.timeout_s)
    for task_type, figures in sorted(history.types.items()):
        timeout_s = timeouts.get(task_type, history.timeout_s)
        if figures.ends < LEAST_ENDS or figures.p95_ms is None or not timeout_s:
            continue
        part = figures.p95_ms / 1000 / timeout_s
        if part >= NEAR_TIMEOUT:
            wanted_s = round((figures.p99_ms or figures.p95_ms) * 1.5 / 1000)
            yield warning(
                f"p95 of type {task_type} is {part:.0%} of its timeout of {timeout_s:,} s "
                f"({count_text(figures.timeouts, 'timeout')} in the last day)",
                f"a timeout of {wanted_s:,} s (p99 x 1.5): timeout_s of its tasks",
            )


def find_unequal_shares(work: WorkPart) -> Iterator[FoundProblem]:
    running = Counter(work.running_by_project)
    total = sum(running.values())
    if total < LEAST_RUNNING:
        return
    project, count = running.most_common(1)[0]
    waiting: Counter[str] = Counter()
    for lane in work.open_lanes:
        if lane.lane.project != project:
            waiting[lane.lane.project] += lane.waiting
    if count / total >= LARGE_SHARE and waiting:
        others = list_names([f"{name} ({tasks:,})" for name, tasks in waiting.most_common()])
        yield note(
            f"project {project} has {count / total:.0%} of the slots in use while tasks of others wait: {others}",
            f"crawlfleet project set {project} --weight 0.5, or --max-running N",
        )
