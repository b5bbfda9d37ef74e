"""A leader, nodes and their processes: a budget divided twice, with all that is said arriving late; the site's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from crawlfleet.model.host import Units
from crawlfleet.scheduling.hosts.grant_versions import HostShares
from tests.property.scheduling.hosts.grants_model import Node

PROCESSES = 2
STEP_S = 0.01
"""Fine enough for holders to come near what they may."""


@dataclass(frozen=True)
class Said:
    """With a sync, as of when it left."""

    version: int
    wanted: int
    is_pending: bool
    in_use: int


@dataclass(eq=False)
class Divider:
    """A node: it hands on what it has."""

    key: int
    processes: list[Node]
    wanted: list[int] = field(default_factory=lambda: [0] * PROCESSES)
    shares: HostShares[int] = field(default_factory=HostShares)
    versions: dict[int, int] = field(default_factory=dict)
    version: int = 0
    said: Said = Said(0, 0, False, 0)

    def speak(self) -> None:
        is_pending = not self.shares.is_in_effect
        self.said = Said(self.version, sum(self.wanted), is_pending, self.shares.may_use.rate)

    def divide(self, now: float) -> None:
        for process, wanted in zip(self.processes, self.wanted, strict=True):
            self.shares.set_wanted(process.key[1], wanted, now)
        self.shares.release_freed(now)
        changed = self.shares.divide_pool(now, {key: self.versions.get(key, 0) + 1 for key in self.shares.holders})
        for key in changed:
            self.versions[key] = self.versions.get(key, 0) + 1


class Tiers:
    def __init__(self, pool: Units, nodes: int, seed: int) -> None:
        self.now = 100.0
        self.rng = Random(seed)
        self.shares: HostShares[int] = HostShares(pool)
        self.versions: dict[int, int] = {}
        self.nodes = [
            Divider(key, [Node((key, number), self.now) for number in range(PROCESSES)]) for key in range(nodes)
        ]
        self.log: list[float] = []
        self.allowed: list[tuple[float, int]] = []

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += STEP_S
            for node in self.nodes:
                if self.rng.random() < 0.15:
                    self._sync(node)
                for process in node.processes:
                    self._change(node, process)
                    self._live(node, process)
            if self.rng.random() < 0.15:
                self._look()
            self.allowed.append((self.now, self.shares.pool.larger_units(self.shares.may_use).rate))
            self._check()

    def _change(self, node: Divider, process: Node) -> None:
        """Now and then one has much to do, or little, or nothing."""
        if self.rng.random() < 0.015:
            node.wanted[process.key[1]] = self.rng.choice([0, 0, 1, 8, 32])
            process.ease = self.rng.choice([1, 1, 1, 2, 8])

    def _live(self, node: Divider, process: Node) -> None:
        process.heard_at, number = self.now, process.key[1]
        if self.rng.random() < 0.2 and node.versions.get(number, 0) > process.version:
            current = node.shares.holders[number].current
            process.take(node.versions[number], current, 0, self.now)
        if self.rng.random() < 0.2:
            # It may be heard long after what it says was counted.
            node.shares.acknowledge_used(number, process.version, self.now, process.used)
            node.divide(self.now)
        if process.may_send(self.now) and node.wanted[number]:
            process.send(self.now)
            self.log.append(self.now)

    def _sync(self, node: Divider) -> None:
        node.speak()
        share = self.shares.holders.get(node.key)
        if share is not None and self.rng.random() < 0.7:
            node.version, node.shares.pool = self.versions.get(node.key, 0), share.current
            node.divide(self.now)

    def _look(self) -> None:
        for node in self.nodes:
            said = node.said
            self.shares.set_wanted(node.key, said.wanted, self.now)
            if not said.is_pending:
                self.shares.acknowledge_version(node.key, said.version, self.now, said.in_use)
        self.shares.release_freed(self.now)
        changed = self.shares.divide_pool(self.now, {key: self.versions.get(key, 0) + 1 for key in self.shares.holders})
        for key in changed:
            self.versions[key] = self.versions.get(key, 0) + 1

    def _check(self) -> None:
        recent = sum(at > self.now - 1.0 for at in self.log[-200:])
        most = max(rate for at, rate in self.allowed[-110:] if at >= self.now - 1.0 - STEP_S)
        assert recent <= most, (recent, most)
