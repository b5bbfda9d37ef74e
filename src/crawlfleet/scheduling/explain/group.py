"""Why a group stands still: what holds its members up, in one sentence of what is the same for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlfleet.scheduling.explain.hosts import HostWait
from crawlfleet.scheduling.explain.task import Why

HOSTS_NAMED = 3


def why(open_members: int, members: Sequence[Why], hosts: Sequence[HostWait]) -> Why:
    """Of those members that have not ended, or of the first of them, and of the hosts that those among them wait for
    that run."""
    if not members:
        return Why("every member has ended", {"cause": "final", "open": open_members})
    causes = Counter(said.data["cause"] for said in members)
    told = {"open": open_members, "members": dict(causes.most_common())}
    if hosts:
        # Several nodes wait for the same host, each for its own part.
        known = {(wait.cause, wait.host): wait for wait in reversed(hosts)}
        waits = sorted(known.values(), key=lambda wait: (wait.cause != "host_backoff", wait.host))
        sentence = "; ".join(wait.sentence for wait in waits[:HOSTS_NAMED])
        return Why(sentence, {"cause": waits[0].cause, **told, "waits_for": [wait.as_data() for wait in waits]})
    # What only runs is no reason to stand still, if there is another.
    idle = [(cause, count) for cause, count in causes.most_common() if cause != "processing"]
    cause, count = idle[0] if idle else causes.most_common(1)[0]
    first = next(said for said in members if said.data["cause"] == cause)
    return Why(f"{count} of {open_members} open members: {first.sentence}", {"cause": cause, **told})
