"""The node's part of its cluster's configuration, as of the newest answer.

It comes with the answer to a sync when the master has a newer version than the node, or other defaults. So nothing is
sent twice, and a lost answer is made good by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crawlfleet.observe.log_level import LEVELS
from crawlfleet.wire.sync import NodeConfigBody

SYNC_S_MIN, SYNC_S_MAX = 0.2, 3.0

AllowHosts = Callable[[Sequence[str]], None]
SetLogLevel = Callable[[str | None], None]


def ignore_hosts(_hosts: Sequence[str]) -> None:
    """Default for an executor that visits no hosts."""


def ignore_level(_level: str | None) -> None:
    """Default for an agent that does not own the log of its process."""


class Config:
    """The node's part of its cluster's configuration, and the sync interval that follows from it."""

    def __init__(self, allow_hosts: AllowHosts = ignore_hosts, set_log_level: SetLogLevel = ignore_level) -> None:
        """`allow_hosts` is called with the hosts that the cluster allows whenever they change; `set_log_level` with the
        level of the log, None for the one that the agent was started with."""
        self._allow_hosts = allow_hosts
        self._set_log_level = set_log_level
        self._hosts: Sequence[str] = []
        self._longest_sync_s = SYNC_S_MAX
        self._configured_s: float | None = None
        self.version = self.mark = 0
        self.sync_s = SYNC_S_MAX
        """Longest time between two syncs."""

    def start_session(self, sync_s: float, lease_s: float) -> None:
        """Start a session with the interval of its open answer, unless a configuration has set another."""
        self._longest_sync_s = min(SYNC_S_MAX, lease_s / 3)
        self.sync_s = self._clamp_sync_s(sync_s if self._configured_s is None else self._configured_s)

    def apply_config(self, body: NodeConfigBody | None) -> bool:
        """Apply the configuration of an answer; True when it is new."""
        if body is None or body.version < self.version or (body.version, body.mark) == (self.version, self.mark):
            return False
        self.version, self.mark = body.version, body.mark
        if body.sync_ms is not None:
            self._configured_s = body.sync_ms / 1000
            self.sync_s = self._clamp_sync_s(self._configured_s)
        if body.allow_hosts != self._hosts:
            self._hosts = body.allow_hosts
            self._allow_hosts(body.allow_hosts)
        # A newer master may know levels that this agent does not.
        self._set_log_level(body.log_level if body.log_level in LEVELS else None)
        return True

    def _clamp_sync_s(self, sync_s: float) -> float:
        return max(SYNC_S_MIN, min(self._longest_sync_s, sync_s))
