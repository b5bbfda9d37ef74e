"""The part of a sync about target hosts: records what the node reports of them, and returns changed grants."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from crawlfleet.control.leader.grant_ledger import encode_said
from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.host_names import HostNews
from crawlfleet.model.ids import NodeId
from crawlfleet.ports.broker import GRANTS, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import Granted, HostNote, HostStore
from crawlfleet.wire.sync import GrantsBody, HostGrantBody, SyncUp
from crawlfleet.wire.tasks import unstorable

_GATHER_NODES = 1_000
_NODES_KEPT = 100_000
_WANTED_MOST = 1_000_000
_SPAN_MS_MOST = 30 * 86_400_000
_OF_NODES = frozenset({HostNews.TOO_MANY, HostNews.UNAVAILABLE, HostNews.BLOCKED, HostNews.CRAWL_DELAY})


class GrantSync:
    def __init__(self, *, store: HostStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._heard: dict[NodeId, Hashable] = {}
        """Last report of each node to this master: the leader is woken only when it changes."""
        self._notes: Batcher[HostNote, None] = Batcher(self._write_notes, max_weight=10_000)
        self._grants: Batcher[NodeId, Granted | None] = Batcher(self._read_grants, max_weight=_GATHER_NODES)

    def said(self, up: SyncUp) -> bytes | None:
        """Encode the node's report on hosts; it is stored with the lease renewal."""
        return encode_said(up.grants_taken, up.hosts)

    async def hear(self, up: SyncUp) -> None:
        """Store refusals and wake the leader, after the renewal. Refusals are stored before the node is answered."""
        if up.host_news:
            notes = [HostNote(one.host, HostNews(one.kind), one.span_ms, up.node) for one in up.host_news]
            await self._notes.put(notes)
        if not (up.hosts or up.grants_taken or up.host_news):
            return
        # Counts are left out: those of a busy node change with every sync.
        said = (up.session, up.grants_taken, *((want.host, want.wanted, want.is_pending) for want in up.hosts))
        if up.host_news or self._heard.get(up.node) != said:
            if len(self._heard) >= _NODES_KEPT:
                self._heard.clear()
            self._heard[up.node] = said
            await self._broker.signals.wake([GRANTS])

    async def news(self, up: SyncUp, newest: int) -> GrantsBody | None:
        if newest <= up.grants_taken:
            return None
        (granted,) = await self._grants.put([up.node])
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
        await self._store.note_hosts(notes)
        return [None] * len(notes)

    async def _read_grants(self, nodes: list[NodeId]) -> Sequence[Granted | None]:
        found = await self._store.granted(nodes)
        return [found.get(node) for node in nodes]


def check_hosts(up: SyncUp) -> None:
    """Check that what a node reports of hosts can be stored. Raises InvalidInput."""
    if not is_storable(up.grants_taken):
        raise InvalidInput(f"a number of at most {limits.INTEGER_BITS} bits", field="grants_taken")
    for field, listed in (("hosts", up.hosts), ("host_news", up.host_news)):
        if len(listed) > limits.HOSTS_PER_SYNC:
            raise InvalidInput(f"at most {limits.HOSTS_PER_SYNC}", field=field)
        for one in listed:
            if not 0 < len(one.host) <= limits.HOST_CHARS or unstorable(one.host):
                raise InvalidInput(f"host names of 1 to {limits.HOST_CHARS} characters", field=field)
    for want in up.hosts:
        counts = (want.requests, want.refused, want.blocked, want.in_use or 0)
        if not 0 <= (want.wanted or 0) <= _WANTED_MOST or not is_storable(*counts):
            raise InvalidInput("counts that can be kept", field="hosts")
    for news in up.host_news:
        if news.kind not in _OF_NODES or not 0 <= news.span_ms <= _SPAN_MS_MOST:
            raise InvalidInput("kinds and spans that are known", field="host_news")
