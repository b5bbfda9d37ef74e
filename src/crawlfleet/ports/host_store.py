"""Target hosts: their stored state, which session holds which part of their budgets, and their request statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.event import EventBatch
from crawlfleet.model.evidence import EvidenceRow
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare
from crawlfleet.model.host_stats import Batch, Counted
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant


class HostNote(NamedTuple):
    """A report about a host that the leader should act on at once."""

    host: str
    kind: HostNoteKind
    span_ms: int = 0
    """Length of the delay or back-off that the host asks for, where the kind has one."""
    node: NodeId | None = None
    id: int = 0
    """Id of the note, given by the store."""


class SessionHosts(NamedTuple):
    """The report of a node's newest session about hosts."""

    node: NodeId
    session: int
    is_open: bool
    lease_ms: int
    said: bytes | None
    """The report as it came with the last renewal."""
    granted: int
    """Newest version of the session's host grants."""


class HostLook(NamedTuple):
    """The input of one pass of the leader over host budgets."""

    sessions: Sequence[SessionHosts]
    """Sessions that reported on hosts or hold grants."""
    notes: Sequence[HostNote]
    """Notes that are not dealt with yet, oldest first, up to a fixed number."""


class Granted(NamedTuple):
    """The host grants of a node's newest session."""

    node: NodeId
    session: int
    version: int
    shares: Sequence[tuple[HostShare, Instant]]
    """Grants, each with the end of its host's back-off, 0 for none."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    """The conditions of a list of hosts."""

    text: str | None = None
    """A part of the host's name."""
    is_backing_off: bool | None = None
    is_set: bool | None = None
    """Whether a person has set limits for the host."""


@dataclass(slots=True)
class GrantChange:
    """The writes of one pass of the leader over host budgets, all applied together."""

    hosts: list[Host] = field(default_factory=list)
    """Changed hosts, without the limits that a person set, which are only read."""
    new_shares: list[HostShare] = field(default_factory=list)
    shares: list[HostShare] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    """Ids of shares that are removed."""
    versions: list[tuple[NodeId, int, int]] = field(default_factory=list)
    """New versions of sessions' grants: (node, session, version)."""
    taken: list[int] = field(default_factory=list)
    """Ids of notes that are dealt with."""
    events: list[EventBatch] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    """Evidence from blocks that executions met and survived."""

    def __bool__(self) -> bool:
        return bool(
            self.hosts
            or self.new_shares
            or self.shares
            or self.gone
            or self.versions
            or self.taken
            or self.events
            or self.evidence
        )


class HostStore(Protocol):
    """Access to target hosts, to the parts of their budgets, and to their request statistics over all nodes.

    Batches of request statistics come in here, are folded by `CounterStore`, and are kept for a limited time.
    """

    async def add_host_notes(self, notes: Sequence[HostNote]) -> None: ...

    async def host_look(self, now: Instant) -> HostLook:
        """Read what the leader needs every second, in one transaction."""
        ...

    async def all_shares(self) -> list[HostShare]: ...

    async def put_grants(self, change: GrantChange, term: int, now: Instant) -> list[EvidenceRow]:
        """Write the changes of a pass. A version for a session that is no longer the newest is ignored.

        Evidence is added to the stored evidence, unless `want_evidence` was never called; returns its rows as they are
        now.
        """
        ...

    async def load_grants(self, nodes: Sequence[NodeId]) -> dict[NodeId, Granted]:
        """Return the grants of each node's newest session, with their version, as of one instant."""
        ...

    async def load_hosts(self, names: Sequence[str]) -> dict[str, Host]: ...

    async def list_hosts(self, where: HostFilter, now: Instant, limit: int, after: str | None = None) -> list[Host]:
        """List hosts by name."""
        ...

    async def host_shares(self, host: str) -> list[HostShare]: ...

    async def set_host(self, host: str, limits: HostLimits, by: str, now: Instant) -> Host:
        """Set these limits and remove all others; the note for the leader is written in the same transaction."""
        ...

    async def add_figures(self, batches: Sequence[Batch], now: Instant) -> list[bool]:
        """Store batches; returns for each whether it was new.

        A batch whose key (session, number) is not above the last one of its node is ignored.
        """
        ...

    async def host_total(self, host: str) -> Counted | None:
        """Return the total of a host since its first request, as far back as it is stored."""
        ...

    async def host_history(self, host: str, span_s: int, since: Instant, until: Instant, limit: int) -> list[Counted]:
        """Return the newest `limit` spans that began from `since` on and before `until`, oldest first, none empty."""
        ...
