"""The part of a sync about target hosts: records what the node reports of them, and returns changed grants."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from crawlfleet.control.leader.grant_ledger import encode_host_report
from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.host import HostNoteKind
from crawlfleet.model.ids import NodeId
from crawlfleet.ports.broker import GRANTS, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import Granted, HostNote, HostStore
from crawlfleet.wire.sync import GrantsBody, HostGrantBody, SyncUp
from crawlfleet.wire.tasks import storage_problem

_NODES_PER_BATCH = 1_000
_MAX_NODES_CACHED = 100_000
_MAX_WANTED = 1_000_000
_MAX_SPAN_MS = 30 * 86_400_000
_NODE_NOTE_KINDS = frozenset(
    {HostNoteKind.TOO_MANY, HostNoteKind.UNAVAILABLE, HostNoteKind.BLOCKED, HostNoteKind.CRAWL_DELAY}
)


class GrantSync:
    def __init__(self, *, store: HostStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._last_reports: dict[NodeId, Hashable] = {}
        """Last report of each node to this master: the leader is woken only when it changes."""
        self._notes: Batcher[HostNote, None] = Batcher(self._write_notes, max_weight=10_000)
        self._grants: Batcher[NodeId, Granted | None] = Batcher(self._read_grants, max_weight=_NODES_PER_BATCH)

    def encode_report(self, up: SyncUp) -> bytes | None:
        """Encode the node's report on hosts; it is stored with the lease renewal."""
        return encode_host_report(up.grants_taken, up.hosts)

    async def record_report(self, up: SyncUp) -> None:
        """Store refusals and wake the leader, after the renewal. Refusals are stored before the node is answered."""
        if up.host_news:
            notes = [HostNote(news.host, HostNoteKind(news.kind), news.span_ms, up.node) for news in up.host_news]
            await self._notes.put_items(notes)
        if not (up.hosts or up.grants_taken or up.host_news):
            return
        # Counts are left out: those of a busy node change with every sync.
        report = (up.session, up.grants_taken, *((want.host, want.wanted, want.is_pending) for want in up.hosts))
        if up.host_news or self._last_reports.get(up.node) != report:
            if len(self._last_reports) >= _MAX_NODES_CACHED:
                self._last_reports.clear()
            self._last_reports[up.node] = report
            await self._broker.signals.send_signals([GRANTS])

    async def changed_grants(self, up: SyncUp, newest_version: int) -> GrantsBody | None:
        if newest_version <= up.grants_taken:
            return None
        (granted,) = await self._grants.put_items([up.node])
        if granted is None or granted.session != up.session or granted.version <= up.grants_taken:
            return None
        now = self._clock.now()
        return GrantsBody(
            granted.version,
            [
                HostGrantBody(share.host, *share.current, share.spacing_ms, max(0, until - now))
                for share, until in granted.shares
            ],
        )

    async def _write_notes(self, notes: list[HostNote]) -> Sequence[None]:
        await self._store.add_host_notes(notes)
        return [None] * len(notes)

    async def _read_grants(self, nodes: list[NodeId]) -> Sequence[Granted | None]:
        grants = await self._store.load_grants(nodes)
        return [grants.get(node) for node in nodes]


def check_hosts(up: SyncUp) -> None:
    """Check that what a node reports of hosts can be stored. Raises InvalidInput."""
    if not is_storable(up.grants_taken):
        raise InvalidInput(f"a number of at most {limits.INTEGER_BITS} bits", field="grants_taken")
    for field, entries in (("hosts", up.hosts), ("host_news", up.host_news)):
        if len(entries) > limits.HOSTS_PER_SYNC:
            raise InvalidInput(f"at most {limits.HOSTS_PER_SYNC}", field=field)
        for entry in entries:
            if not 0 < len(entry.host) <= limits.HOST_CHARS or storage_problem(entry.host):
                raise InvalidInput(f"host names of 1 to {limits.HOST_CHARS} characters", field=field)
    for want in up.hosts:
        counts = (want.requests, want.refused, want.blocked, want.in_use or 0)
        if not 0 <= (want.wanted or 0) <= _MAX_WANTED or not is_storable(*counts):
            raise InvalidInput("counts that can be kept", field="hosts")
    for news in up.host_news:
        if news.kind not in _NODE_NOTE_KINDS or not 0 <= news.span_ms <= _MAX_SPAN_MS:
            raise InvalidInput("kinds and spans that are known", field="host_news")
