"""What a crawl asks of whoever keeps the budgets of hosts: where every request to a target host passes.

What is said between an executor process and its agent about it is here, too, and a gate for a crawl without an agent;
the one that keeps to grants is in `granted_gate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.execution.task_errors import TryLater
from crawlfleet.model import host_stats

PATIENCE_S = 5.0
"""Who waits for longer would only hold a slot."""
HOLD_S = 1.0
"""After a refusal, until the agent says how long the host is left alone."""


class HostUse(NamedTuple):
    """What a process wants of a host, and what it has asked since it told the last time."""

    host: str
    wanted: int
    requests: int = 0
    refused: int = 0
    blocked: int = 0
    figures: tuple[int, ...] = ()
    """model.host_figures; empty where nothing else was counted."""


class ProcessShare(NamedTuple):
    host: str
    rate: int = 0
    concurrency: int = 0
    spacing_ms: int = 0
    away_until: float = 0.0
    """By the monotonic clock."""


class Wanting(Protocol):
    """Somebody with requests to come."""

    def queued(self) -> Mapping[str, int]:
        """How many, by host."""
        ...

    def wake(self) -> None:
        """Some host may have become ready."""
        ...


class GateLink(Protocol):
    """The way to the agent."""

    def use(self, hosts: Sequence[HostUse]) -> None:
        """All hosts that are wanted now."""
        ...

    def taken(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        """The version is in effect, but for hosts that have more under way than it allows. `used`: how many requests
        have left lately, by host; what others can have at once depends on it."""
        ...

    def news(self, host: str, kind: int, span_ms: int) -> None: ...


class HostAway(TryLater):
    """The host is left alone by everybody, for longer than anybody waits in line."""

    def __init__(self, host: str, away_s: float) -> None:
        super().__init__(f"host {host} is in back-off for another {away_s:.0f} s", away_s)
        self.host = host


class NoGrant(Exception):
    """The grant ended between the turn and the request: wait for another turn."""


class Gate(Protocol):
    async def begin(self, host: str) -> None:
        """Returns when a request to the host may leave; `end` follows when its answer was read. Raises HostAway."""
        ...

    def end(self, host: str) -> None: ...

    async def depart(self, host: str, *, is_repeat: bool = False) -> None:
        """Returns when a request whose connection stands may leave on it. Raises NoGrant.

        Only now does it count as a request of the host; one that leaves again, on another connection, was counted.
        """
        ...

    def is_ready(self, host: str) -> bool:
        """Whether it makes sense to line up for the host."""
        ...

    def away_s(self, host: str) -> float:
        """How long the host is left alone, as far as is known."""
        ...

    def answered(self, host: str, status: int, retry_after_s: float) -> None:
        """Any answer that is no page: those that ask to wait are told to everybody."""
        ...

    def blocked(self, host: str) -> None:
        """A wall stood where the page should be."""
        ...

    def tell_block(self, host: str) -> None:
        """An execution goes on although the host blocked it: to be remembered of this node, once in a while."""
        ...

    def figures(self, host: str) -> list[int]:
        """What is counted of the host, to be added to between `begin` and `end`."""
        ...

    def awaited_share(self, host: str) -> ProcessShare | None:
        """What this process may ask of the host, if requests wait in line for it now."""
        ...

    def asks_for(self, host: str, delay_s: float) -> None:
        """The crawl delay of its robots.txt."""
        ...

    def enter(self, wanting: Wanting) -> None: ...

    def leave(self, wanting: Wanting) -> None: ...


class OpenGate:
    """For a crawl without an agent: only its own pace counts."""

    async def begin(self, host: str) -> None:
        pass

    def end(self, host: str) -> None:
        pass

    async def depart(self, host: str, *, is_repeat: bool = False) -> None:
        pass

    def is_ready(self, host: str) -> bool:
        return True

    def away_s(self, host: str) -> float:
        return 0.0

    def answered(self, host: str, status: int, retry_after_s: float) -> None:
        pass

    def blocked(self, host: str) -> None:
        pass

    def tell_block(self, host: str) -> None:
        pass

    def figures(self, host: str) -> list[int]:
        return host_stats.nothing()

    def awaited_share(self, host: str) -> ProcessShare | None:
        return None

    def asks_for(self, host: str, delay_s: float) -> None:
        pass

    def enter(self, wanting: Wanting) -> None:
        pass

    def leave(self, wanting: Wanting) -> None:
        pass
