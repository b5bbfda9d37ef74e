"""A model of a host, its leader and its nodes: what they hear late or never, and the site's own log."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlfleet.model.host import EASE, NONE, Units
from crawlfleet.scheduling.hosts.grant_versions import HostShares

STEP_S = 0.05
LEASE_S = 9.0
GUARD_S = 7.0
"""From its last heard answer a node goes on for so long by itself."""


@dataclass(eq=False)
class Node:
    """A holder as it really is: greedy, within what it heard last, or for a while with little to do."""

    key: tuple[int, int]
    heard_at: float
    version: int = 0
    uses: Units = NONE
    spacing_ms: int = 0
    has_link: bool = True
    is_deaf: bool = False
    """What it says arrives, and no answer comes back."""
    is_orphan: bool = False
    """Its node has a newer session, of which it knows nothing."""
    sent_at: float = -100.0
    counts: bool = False
    """Whether it says what it has used."""
    ease: int = 1
    """How many times rarer than it might it asks."""
    log: list[float] = field(default_factory=list)
    used: int = 0
    """In the second before it took its version."""

    def may_send(self, now: float) -> bool:
        spacing_s = self.spacing_ms / 1000 if self.spacing_ms else EASE / max(1, self.uses.rate)
        return bool(self.uses) and now - self.heard_at < GUARD_S and now - self.sent_at >= self.ease * spacing_s

    def send(self, now: float) -> None:
        self.sent_at = now
        self.log.append(now)

    def take(self, version: int, uses: Units, spacing_ms: int, now: float) -> None:
        self.version, self.uses, self.spacing_ms = version, uses, spacing_ms
        self.used = sum(at > now - 1.0 for at in self.log)


class World:
    def __init__(self, pool: Units, spacing_ms: int = 0) -> None:
        self.now = 100.0
        self.shares: HostShares[tuple[int, int]] = HostShares(pool, spacing_ms)
        self.nodes: list[Node] = []
        self.versions: dict[tuple[int, int], int] = {}
        self.log: list[float] = []
        self.allowed: list[tuple[float, int]] = []
        """What the leader let be used, over time."""
        self._steps = self._sessions = 0

    def join(self, number: int) -> Node:
        self._sessions += 1
        node = Node((number, self._sessions), self.now)
        self.nodes.append(node)
        return node

    def find(self, number: int) -> Node | None:
        return next((node for node in self.nodes if node.key[0] == number and not node.is_orphan), None)

    def want(self, node: Node, wanted: int | None) -> None:
        if node.has_link:
            self.shares.set_wanted(node.key, wanted, self.now)

    def restart(self, node: Node) -> Node:
        self.shares.end_holder(node.key, self.now, LEASE_S)
        node.has_link, node.is_orphan = False, True
        return self.join(node.key[0])

    def leave(self, node: Node) -> None:
        self.nodes.remove(node)
        self.shares.end_holder(node.key, self.now)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._steps += 1
            self.now = 100.0 + self._steps * STEP_S
            for node in list(self.nodes):
                self._live(node)
            if self._steps % 4 == 0:
                self.look()
            if self._steps % 5 == 0:
                for node in self.nodes:
                    self._hear(node)
            self.allowed.append((self.now, self.shares.pool.larger_units(self.shares.may_use).rate))
            self._check_log()

    def look(self) -> None:
        """A pass of the leader."""
        for node in self.nodes:
            if node.has_link:
                self.shares.acknowledge_used(node.key, node.version, self.now, node.used if node.counts else None)
        self.shares.release_freed(self.now)
        before = self.shares.may_use
        changed = self.shares.divide_pool(self.now, {key: self.versions.get(key, 0) + 1 for key in self.shares.holders})
        for key in changed:
            self.versions[key] = self.versions.get(key, 0) + 1
        after = self.shares.may_use
        assert after.fits_within(self.shares.pool.larger_units(before)), (before, after, self.shares.pool)

    def _live(self, node: Node) -> None:
        if node.may_send(self.now):
            node.send(self.now)
            self.log.append(self.now)
        if not node.has_link and self.now - node.heard_at > LEASE_S:
            # Reaped, as it was silent for a lease.
            self.shares.end_holder(node.key, self.now)
            self.nodes.remove(node)

    def _hear(self, node: Node) -> None:
        if not node.has_link or node.is_deaf:
            return
        node.heard_at = self.now
        share = self.shares.holders.get(node.key)
        if share is not None and self.versions.get(node.key, 0) > node.version:
            node.take(self.versions[node.key], share.current, self.shares.spacing_ms, self.now)

    def _check_log(self) -> None:
        recent = [at for at in self.log[-100:] if at > self.now - 1.0]
        most = max(rate for at, rate in self.allowed[-30:] if at >= self.now - 1.0 - STEP_S)
        assert len(recent) <= most, (recent, most)
