"""Explains what a running execution waits for at target hosts: their back-off, or its node's part of their budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from crawlfleet.model.host import Backoff, HostShare
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.scheduling.explain.wording import span_text
from crawlfleet.scheduling.hosts.budgets import HostBudget

USED_UP_SHARE = 0.75
"""Share of its rate at which a host counts as used up: requests are spaced a little wider than the rate."""


class HostDemand(NamedTuple):
    """A host that the execution's node wants, with its share, back-off and budget."""

    share: HostShare
    backoff: Backoff
    budget: HostBudget
    nodes: int
    """Number of nodes that want the host, this one among them."""
    requests_per_s: float = 0.0
    """Requests a second that all nodes have sent to it recently."""


@dataclass(frozen=True, slots=True)
class HostWait:
    """A host that holds back requests: the cause, as a sentence and as data."""

    host: str
    cause: str
    sentence: str
    data: dict[str, Any]

    def as_data(self) -> dict[str, Any]:
        return {"host": self.host, "cause": self.cause, **self.data}


def host_waits(uses: Iterable[HostDemand], now: Instant) -> list[HostWait]:
    """The waits for hosts that hold requests back, by name; back-offs first."""
    waits = [wait for use in uses if (wait := _wait_for_host(use, now)) is not None]
    return sorted(waits, key=lambda wait: (wait.cause != "host_backoff", wait.host))


def _wait_for_host(use: HostDemand, now: Instant) -> HostWait | None:
    share, budget, name = use.share, use.budget, use.share.host
    if use.backoff.is_on(now):
        until = to_text(use.backoff.until)
        sentence = f"waits for host {name}: in back-off until {until}, in {span_text(use.backoff.until - now)}"
        return HostWait(name, "host_backoff", sentence, {"until": until, "reason": use.backoff.reason})
    if not share.wanted or (share.wanted <= min(share.current) and not _is_used_up(use)):
        return None
    shown = _budget_text(budget)
    whose = "is this node's alone" if use.nodes <= 1 else f"is shared by {use.nodes} nodes"
    if not share.current:
        whose += ", and it is the turn of another"
    data = {"rate": budget.rate, "concurrency": budget.concurrency, "delay_s": budget.delay_s, "nodes": use.nodes}
    sentence = f"waits for host {name}: its budget of {shown} {whose} ({_remedy(name, budget)})"
    return HostWait(name, "host_budget", sentence, data)


def _is_used_up(use: HostDemand) -> bool:
    """Whether the host gets about as many requests as it may: a node that is answered quickly has few requests under
    way at once, and waits between them all the same."""
    return use.requests_per_s >= USED_UP_SHARE * use.budget.rate


def _remedy(name: str, budget: HostBudget) -> str:
    """The command that changes what limits most, as it can be pasted."""
    if budget.rate_from == "back-off":
        return f"less after refusals; crawlfleet host forgive {name} ends that"
    if budget.delay_s > 0:
        source = "as its robots.txt asks; " if budget.delay_from == "robots" else ""
        return f"{source}crawlfleet host set {name} --delay {budget.delay_s / 2:g} shortens it"
    more = f"--rate {2 * budget.rate:g} --concurrency {2 * budget.concurrency}"
    return f"crawlfleet host set {name} {more} raises it"


def _budget_text(budget: HostBudget) -> str:
    if budget.spacing_ms:
        return f"one request in {max(budget.delay_s, 1 / budget.rate):g} s"
    return f"{budget.rate:g}/s, {budget.concurrency} at once"
