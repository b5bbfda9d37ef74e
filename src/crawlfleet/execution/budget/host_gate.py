"""The host gate, which every request to a target host passes: its interface, and a gate without budgets.

The records that an executor process and its agent exchange about hosts are here, too. The gate that enforces grants is
in `granted_gate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.execution.task_errors import TryLater
from crawlfleet.model import host_stats

PATIENCE_S = 5.0
"""Longest wait for a host in back-off; an execution that waits longer is parked to free its slot."""
HOLD_S = 1.0
"""Pause of a host after a refusal, until the agent has its back-off."""


class HostUsage(NamedTuple):
    """Demand of a process for a host, and its requests since the last report."""

    host: str
    wanted: int
    requests: int = 0
    refused: int = 0
    blocked: int = 0
    figures: tuple[int, ...] = ()
    """Counts by `model.host_stats`; empty where nothing else was counted."""


class ProcessShare(NamedTuple):
    """A process's share of one host's budget."""

    host: str
    rate: int = 0
    concurrency: int = 0
    spacing_ms: int = 0
    away_until: float = 0.0
    """End of the host's back-off by the monotonic clock; 0: none."""


class RequestSource(Protocol):
    """A source of future requests: a crawl."""

    def queued(self) -> Mapping[str, int]:
        """Number of queued requests by host."""
        ...

    def wake(self) -> None:
        """Wake the source: a host may have become ready."""
        ...


class GateLink(Protocol):
    """The link of the gate to the agent."""

    def report_usage(self, hosts: Sequence[HostUsage]) -> None:
        """Report demand and usage of all hosts that are wanted now."""
        ...

    def acknowledge_grants(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        """Acknowledge that a version is in effect, except for `pending` hosts, which have more requests under way than
        it allows. `used` is the recent number of requests by host; what others can be granted at once depends on it."""
        ...

    def report_host_note(self, host: str, kind: int, span_ms: int) -> None: ...


class HostAway(TryLater):
    """The host is in back-off on all nodes, for longer than a request may wait."""

    def __init__(self, host: str, away_s: float) -> None:
        super().__init__(f"host {host} is in back-off for another {away_s:.0f} s", away_s)
        self.host = host


class NoGrant(Exception):
    """The grant ended between the turn and the request: the request waits for another turn."""


class HostGate(Protocol):
    """The gate that every request to a target host passes."""

    async def begin_request(self, host: str) -> None:
        """Wait for a request's turn at the host; `end_request` follows when its answer was read. Raises HostAway."""
        ...

    def end_request(self, host: str) -> None: ...

    async def await_departure(self, host: str, *, is_repeat: bool = False) -> None:
        """Wait until a request may leave on its open connection. Raises NoGrant.

        Only now does it count as a request to the host; a repeat on another connection does not count again.
        """
        ...

    def is_ready(self, host: str) -> bool:
        """Whether it makes sense to queue for the host."""
        ...

    def away_s(self, host: str) -> float:
        """Remaining back-off of the host; 0 or less: none."""
        ...

    def record_answer(self, host: str, status: int, retry_after_s: float) -> None:
        """Record an answer that is no page; a 429 or 503 is reported for all nodes."""
        ...

    def record_block(self, host: str) -> None:
        """Count a block page in place of a page."""
        ...

    def report_block(self, host: str) -> None:
        """Report that the host blocks this node although the execution goes on; at most once in a while."""
        ...

    def host_counts(self, host: str) -> list[int]:
        """The counters of the host, to be added to between `begin_request` and `end_request`."""
        ...

    def awaited_share(self, host: str) -> ProcessShare | None:
        """This process's share of the host, if requests are queued for it now."""
        ...

    def set_crawl_delay(self, host: str, delay_s: float) -> None:
        """Set the crawl delay of the host's robots.txt."""
        ...

    def add_source(self, source: RequestSource) -> None: ...

    def remove_source(self, source: RequestSource) -> None: ...


class OpenGate:
    """A gate without budgets, for a crawl without an agent: only its own pace counts."""

    async def begin_request(self, host: str) -> None:
        pass

    def end_request(self, host: str) -> None:
        pass

    async def await_departure(self, host: str, *, is_repeat: bool = False) -> None:
        pass

    def is_ready(self, host: str) -> bool:
        return True

    def away_s(self, host: str) -> float:
        return 0.0

    def record_answer(self, host: str, status: int, retry_after_s: float) -> None:
        pass

    def record_block(self, host: str) -> None:
        pass

    def report_block(self, host: str) -> None:
        pass

    def host_counts(self, host: str) -> list[int]:
        return host_stats.empty_row()

    def awaited_share(self, host: str) -> ProcessShare | None:
        return None

    def set_crawl_delay(self, host: str, delay_s: float) -> None:
        pass

    def add_source(self, source: RequestSource) -> None:
        pass

    def remove_source(self, source: RequestSource) -> None:
        pass
