"""What the configuration of the node's cluster says to the node, as far as it has heard.

It comes with an answer to a sync when the master has a newer version than the node, or other defaults, so that nothing
is said twice and a lost answer is made good by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crawlfleet.wire.sync import NodeConfigBody

SYNC_S_MIN, SYNC_S_MAX = 0.2, 3.0

AllowHosts = Callable[[Sequence[str]], None]


def hosts_unheard(_hosts: Sequence[str]) -> None:
    """For an executor that goes nowhere."""


class Config:
    def __init__(self, allow_hosts: AllowHosts = hosts_unheard) -> None:
        """`allow_hosts` is told which hosts the cluster allows, whenever that changes."""
        self._allow_hosts = allow_hosts
        self._hosts: Sequence[str] = []
        self._longest_s = SYNC_S_MAX
        self._said_s: float | None = None
        self.version = self.mark = 0
        self.sync_s = SYNC_S_MAX
        """A sync at least this often."""

    def begin(self, sync_s: float, lease_s: float) -> None:
        """A new session. What it was opened with holds as long as no version was heard."""
        self._longest_s = min(SYNC_S_MAX, lease_s / 3)
        self.sync_s = self._bounded(sync_s if self._said_s is None else self._said_s)

    def take(self, body: NodeConfigBody | None) -> bool:
        """Whether it was news."""
        if body is None or body.version < self.version or (body.version, body.mark) == (self.version, self.mark):
            return False
        self.version, self.mark = body.version, body.mark
        if body.sync_ms is not None:
            self._said_s = body.sync_ms / 1000
            self.sync_s = self._bounded(self._said_s)
        if body.allow_hosts != self._hosts:
            self._hosts = body.allow_hosts
            self._allow_hosts(body.allow_hosts)
        return True

    def _bounded(self, sync_s: float) -> float:
        return max(SYNC_S_MIN, min(self._longest_s, sync_s))
