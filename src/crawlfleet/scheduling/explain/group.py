"""Explains why a group does not progress: what holds its members up, in one sentence on the most common cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlfleet.scheduling.explain.hosts import HostWait
from crawlfleet.scheduling.explain.task import Why

HOSTS_NAMED = 3


def explain_group(open_members: int, members: Sequence[Why], hosts: Sequence[HostWait]) -> Why:
    """Explain a group by its members that have not ended, or the first of them, and by the hosts that running members
    wait for."""
    if not members:
        return Why("every member has ended", {"cause": "final", "open": open_members})
    causes = Counter(member.data["cause"] for member in members)
    data = {"open": open_members, "members": dict(causes.most_common())}
    if hosts:
        # Several nodes wait for the same host, each for its own part.
        waits_by_host = {(wait.cause, wait.host): wait for wait in reversed(hosts)}
        waits = sorted(waits_by_host.values(), key=lambda wait: (wait.cause != "host_backoff", wait.host))
        sentence = "; ".join(wait.sentence for wait in waits[:HOSTS_NAMED])
        return Why(sentence, {"cause": waits[0].cause, **data, "waits_for": [wait.as_data() for wait in waits]})
    # What only runs is no reason to stand still, if there is another.
    idle = [(cause, count) for cause, count in causes.most_common() if cause != "processing"]
    cause, count = idle[0] if idle else causes.most_common(1)[0]
    first = next(member for member in members if member.data["cause"] == cause)
    return Why(f"{count} of {open_members} open members: {first.sentence}", {"cause": cause, **data})
