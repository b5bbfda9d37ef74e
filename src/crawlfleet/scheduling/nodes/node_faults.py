"""Faults of nodes, told apart from faults of tasks and of sites by comparison with other nodes.

An execution that fails says nothing about its node by itself: the task may be wrong, its site may be down, its program
may crash everywhere. A failure counts against a node only where other nodes do better at the same work and at the same
time: processes that die while those of other nodes survive the same type of task, a site that cannot be reached while
other nodes reach it, silence while other nodes are heard. A node without others to compare it with has no faults here.

All counts fade with time, whether or not anything more is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.ids import NodeId

HALF_LIFE_S = 60.0
PRIOR = 2.0
"""Number of good outcomes that every node is assumed to have had: a single failure is no rate."""
MAX_WEIGHT = 20.0
"""Limit on the outcomes in one count: an hour of failures is forgotten as soon as a minute of them."""
MIN_COMPARED = 3.0
"""Number of outcomes of other nodes below which there is nothing to compare with."""
BATCH_DELAY_S = 10.0
"""Seconds by which a report about hosts may be older than its arrival."""
MAX_HOSTS = 20_000
SILENT_LEASE_SHARE = 0.5


class NodeFaults(NamedTuple):
    """The faults of a node at one time, as shares from 0 to 1."""

    crash_rate: float = 0.0
    """Share of executions whose process died, where processes of other nodes survive the same type."""
    network_rate: float = 0.0
    """Share of requests to hosts that the node does not reach and other nodes do."""
    is_silent: bool = False


NO_FAULTS = NodeFaults()


@dataclass(slots=True)
class _OutcomeCount:
    """Counts of good and bad outcomes, faded to the time `at`."""

    good: float = 0.0
    bad: float = 0.0
    at: float = 0.0

    def fade(self, now_mono: float) -> None:
        if now_mono > self.at:
            left = 0.5 ** ((now_mono - self.at) / HALF_LIFE_S)
            self.good *= left
            self.bad *= left
            self.at = now_mono

    def add(self, good: float, bad: float, now_mono: float) -> None:
        self.fade(now_mono)
        self.good += max(0.0, good)
        self.bad += max(0.0, bad)
        total = self.good + self.bad
        if total > MAX_WEIGHT:
            self.good *= MAX_WEIGHT / total
            self.bad *= MAX_WEIGHT / total


def fault_rate(good: float, bad: float) -> float:
    return bad / (good + bad + PRIOR)


class ProcessFaults:
    """Counts of how executions end on each node, by task type: with their process alive, or with its death."""

    def __init__(self) -> None:
        self._counts: dict[NodeId, dict[str, _OutcomeCount]] = {}
        self._reported: dict[NodeId, Mapping[str, tuple[int, int]]] = {}

    def record_ends(self, node: NodeId, ends: Iterable[tuple[str, int, int]], now_mono: float) -> None:
        """Record a node's report; `ends` are totals since the agent started, counted from the node's first report."""
        totals = {task_type: (survived, died) for task_type, survived, died in ends}
        before = self._reported.get(node)
        self._reported[node] = totals
        if before is None:
            return
        counts = self._counts.setdefault(node, {})
        for task_type, (survived, died) in totals.items():
            good, bad = before.get(task_type, (0, 0))
            # Totals that fell are those of an agent that was started anew.
            is_same_agent = survived >= good and died >= bad
            good, bad = (survived - good, died - bad) if is_same_agent else (survived, died)
            if good or bad:
                counts.setdefault(task_type, _OutcomeCount(at=now_mono)).add(good, bad, now_mono)

    def fault_rates(self, now_mono: float) -> dict[NodeId, float]:
        """Of nodes that have any."""
        totals: dict[str, list[float]] = {}
        for counts in self._counts.values():
            for task_type, count in counts.items():
                count.fade(now_mono)
                total = totals.setdefault(task_type, [0.0, 0.0])
                total[0] += count.good
                total[1] += count.bad
        return {
            node: rate
            for node, counts in self._counts.items()
            if any(count.bad for count in counts.values()) and (rate := _compared_rate(counts, totals)) > 0.0
        }

    def forget_node(self, node: NodeId) -> None:
        """Drop a node; its later reports are counted from the next one."""
        self._counts.pop(node, None)
        self._reported.pop(node, None)

    def keep_nodes(self, nodes: Collection[NodeId]) -> None:
        for gone in self._reported.keys() - set(nodes):
            self.forget_node(gone)


def _compared_rate(counts: Mapping[str, _OutcomeCount], totals: Mapping[str, list[float]]) -> float:
    good = bad = 0.0
    for task_type, count in counts.items():
        others_good = max(0.0, totals[task_type][0] - count.good)
        others_bad = max(0.0, totals[task_type][1] - count.bad)
        others = others_good + others_bad
        good += count.good
        bad += count.bad * others_good / others if others >= MIN_COMPARED else 0.0
    return fault_rate(good, bad)


@dataclass(slots=True)
class _Reach(_OutcomeCount):
    reached_at: float | None = None
    failing_since: float | None = None


class HostReach:
    """Record of which nodes reach which target hosts."""

    def __init__(self, max_hosts: int = MAX_HOSTS) -> None:
        self._max_hosts = max_hosts
        self._by_host: dict[str, dict[NodeId, _Reach]] = {}
        """Nodes by host, hosts in the order of their last report."""
        self._by_node: dict[NodeId, dict[str, _Reach]] = {}

    def record_requests(self, node: NodeId, host: str, reached: int, unreached: int, now_mono: float) -> None:
        if reached <= 0 and unreached <= 0:
            return
        nodes = self._by_host.pop(host, None)
        if nodes is None:
            nodes = {}
            if len(self._by_host) >= self._max_hosts:
                self._drop_host(next(iter(self._by_host)))
        self._by_host[host] = nodes
        reach = nodes.get(node)
        if reach is None:
            reach = nodes[node] = self._by_node.setdefault(node, {})[host] = _Reach(at=now_mono)
        reach.add(reached, unreached, now_mono)
        if reached > 0:
            reach.reached_at = now_mono
        if unreached <= reached:
            reach.failing_since = None
        elif reach.failing_since is None:
            reach.failing_since = now_mono

    def fault_rates(self, now_mono: float) -> dict[NodeId, float]:
        """Of nodes that have any."""
        rates = {}
        for node, hosts in self._by_node.items():
            bad = 0.0
            for host, reach in hosts.items():
                if reach.failing_since is not None and self._is_reached_by_others(host, node, reach.failing_since):
                    reach.fade(now_mono)
                    bad += reach.bad
            if bad:
                for reach in hosts.values():
                    reach.fade(now_mono)
                rates[node] = fault_rate(sum(reach.good for reach in hosts.values()), bad)
        return rates

    def forget_node(self, node: NodeId) -> None:
        for host in self._by_node.pop(node, {}):
            nodes = self._by_host[host]
            del nodes[node]
            if not nodes:
                del self._by_host[host]

    def keep_nodes(self, nodes: Collection[NodeId]) -> None:
        for gone in self._by_node.keys() - set(nodes):
            self.forget_node(gone)

    def _is_reached_by_others(self, host: str, node: NodeId, since: float) -> bool:
        """Whether other nodes reach the host since this one fails. An earlier success proves nothing: the host may be
        down for all."""
        return any(
            other != node
            and reach.failing_since is None
            and reach.reached_at is not None
            and reach.reached_at > since + BATCH_DELAY_S
            for other, reach in self._by_host[host].items()
        )

    def _drop_host(self, host: str) -> None:
        for node in self._by_host.pop(host):
            hosts = self._by_node[node]
            del hosts[host]
            if not hosts:
                del self._by_node[node]


@dataclass(slots=True)
class _LastRenewal:
    renewals: tuple[int, int]
    at: float


@dataclass(slots=True)
class SilenceDetector:
    """Detects nodes that do not renew, though their leases have not ended."""

    _last_renewals: dict[NodeId, _LastRenewal] = field(default_factory=dict)

    def silent_nodes(self, renewals: Mapping[NodeId, tuple[int, int, float]], now_mono: float) -> set[NodeId]:
        """Nodes whose count of renewals (with their session, and the length of their lease in seconds) stood still for
        half of their lease. Where most of the others are silent too, the fault is on the master's side."""
        last_renewals = {}
        for node, (session, count, _) in renewals.items():
            before = self._last_renewals.get(node)
            is_same = before is not None and before.renewals == (session, count)
            last_renewals[node] = before if before is not None and is_same else _LastRenewal((session, count), now_mono)
        self._last_renewals = last_renewals
        silent = {
            node
            for node, (_, _, lease_s) in renewals.items()
            if now_mono - last_renewals[node].at > lease_s * SILENT_LEASE_SHARE
        }
        others = len(renewals) - 1
        return silent if others > 0 and 2 * (len(silent) - 1) < others else set()
