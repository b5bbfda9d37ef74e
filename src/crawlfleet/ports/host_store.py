"""Target hosts: what is known of them, and which session holds which part of their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.event import EventBatch
from crawlfleet.model.evidence import EvidenceRow
from crawlfleet.model.host_budget import Host, HostLimits, HostShare
from crawlfleet.model.host_names import HostNews
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant


class HostNote(NamedTuple):
    """Something the leader should know at once."""

    host: str
    kind: HostNews
    span_ms: int = 0
    node: NodeId | None = None
    id: int = 0
    """Given by the store."""


class SessionHosts(NamedTuple):
    """What a node's newest session says of hosts."""

    node: NodeId
    session: int
    is_open: bool
    lease_ms: int
    said: bytes | None
    """As it came with the last renewal."""
    granted: int


class HostLook(NamedTuple):
    sessions: Sequence[SessionHosts]
    """Those that said something or hold something."""
    notes: Sequence[HostNote]
    """Oldest first, so many at most."""


class Granted(NamedTuple):
    node: NodeId
    session: int
    version: int
    shares: Sequence[tuple[HostShare, Instant]]
    """Each with the end of its host's back-off, 0 for none."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    text: str | None = None
    """A part of the name."""
    is_backing_off: bool | None = None
    is_set: bool | None = None
    """By a person."""


@dataclass(slots=True)
class GrantChange:
    """What a pass of the leader writes, all of it together."""

    hosts: list[Host] = field(default_factory=list)
    """Without what a person set, which is only read."""
    new_shares: list[HostShare] = field(default_factory=list)
    shares: list[HostShare] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    versions: list[tuple[NodeId, int, int]] = field(default_factory=list)
    """Of nodes' sessions: (node, session, version)."""
    taken: list[int] = field(default_factory=list)
    """Notes that are dealt with."""
    events: list[EventBatch] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    """Of blocks that executions met and outlived."""

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
    async def note_hosts(self, notes: Sequence[HostNote]) -> None: ...

    async def host_look(self, now: Instant) -> HostLook:
        """What the leader looks at every second, in one go."""
        ...

    async def all_shares(self) -> list[HostShare]: ...

    async def put_grants(self, change: GrantChange, term: int, now: Instant) -> list[EvidenceRow]:
        """A version of a session that is not the newest any more is passed over.

        Evidence is added to what is known, unless nobody wants to know; gives its rows as they are now.
        """
        ...

    async def granted(self, nodes: Sequence[NodeId]) -> dict[NodeId, Granted]:
        """The grants of each node's newest session, with their version, as of one instant."""
        ...

    async def hosts(self, names: Sequence[str]) -> dict[str, Host]: ...

    async def list_hosts(self, where: HostFilter, now: Instant, limit: int, after: str | None = None) -> list[Host]:
        """By name."""
        ...

    async def host_shares(self, host: str) -> list[HostShare]: ...

    async def set_host(self, host: str, limits: HostLimits, by: str, now: Instant) -> Host:
        """These limits and no others; the leader is told of it in the same transaction."""
        ...

    async def drop_hosts(self, term: int, before: Instant, limit: int) -> int:
        """Forget hosts of which nobody said anything and that were not asked since."""
        ...
