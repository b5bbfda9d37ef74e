"""The leader's ledger of host grants: which session holds which part of which host's budget, and what is pending.

It is loaded from the store at the start of a term, and whenever a write did not end as it should. A wait that was under
way (a cut that was just acknowledged) begins anew then: units are free later than need be, never sooner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from crawlfleet.control.leader.host_grant_state import HostState, Key
from crawlfleet.model.host_budget import Host, HostLimits, HostShare
from crawlfleet.model.host_names import HostNews
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.host_store import GrantChange, HostNote, SessionHosts
from crawlfleet.wire.sync import HostWantBody

_decode = msgspec.json.Decoder(tuple[int, list[HostWantBody]]).decode
_encode = msgspec.json.Encoder().encode


def encode_host_report(acknowledged_version: int, wants: Sequence[HostWantBody]) -> bytes | None:
    """Encode a session's report on hosts as it is stored with its lease; None for a session that uses no host."""
    return _encode((acknowledged_version, wants)) if acknowledged_version or wants else None


@dataclass(slots=True)
class _Session:
    number: int
    version: int
    said: bytes | None = None
    wants: dict[str, HostWantBody] = field(default_factory=dict)


class GrantBook:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._hosts: dict[str, HostState] = {}
        self._sessions: dict[NodeId, _Session] = {}
        self._held: dict[NodeId, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        """Names of the hosts of which a session has a share, by node and session."""
        self._dirty: set[str] = set()
        self._last_id = 0
        self._usual = HostLimits()

    def __len__(self) -> int:
        return len(self._hosts)

    def load(self, shares: Sequence[HostShare], hosts: Mapping[str, Host], at: float) -> None:
        """Replace the ledger by what the store has."""
        self._hosts.clear()
        self._sessions.clear()
        self._held.clear()
        self._dirty.clear()
        self._last_id = max((share.id for share in shares), default=0)
        self.meet({share.host for share in shares}, hosts, at)
        for row in shares:
            self._hosts[row.host].load(row, at)
            self._held[row.node][row.session].add(row.host)

    def strangers(self, sessions: Sequence[SessionHosts], notes: Sequence[HostNote]) -> set[str]:
        """Names of the hosts to be read from the store before the reports and notes can be applied."""
        names = {note.host for note in notes if note.kind is HostNews.CHANGED or note.host not in self._hosts}
        for session in sessions:
            if session.is_open and session.said is not None and self._is_news(session):
                names |= {want.host for want in _decode(session.said)[1] if want.host not in self._hosts}
        return names

    def meet(self, names: Iterable[str], hosts: Mapping[str, Host], at: float) -> None:
        """Add hosts, or update their settings, from what the store has of them."""
        for name in names:
            host = hosts.get(name, Host(name))
            if name in self._hosts:
                self._hosts[name].reread(host)
            else:
                self._hosts[name] = HostState(host, at)
            self._dirty.add(name)

    def expect(self, usual: HostLimits) -> None:
        """Set the limits of hosts that have none of their own."""
        if usual != self._usual:
            self._usual = usual
            self._dirty |= self._hosts.keys()

    def hear(self, sessions: Sequence[SessionHosts], at: float) -> None:
        """Apply what sessions want and have acknowledged, and end the shares of sessions that are over."""
        for session in sessions:
            known = self._sessions.get(session.node)
            if not session.is_open:
                self._end(session.node, None, at, 0.0)
            elif known is None or known.number != session.session:
                # Replaced, not ended: an old session's processes may go on until its lease is over.
                self._end(session.node, session.session, at, session.lease_ms / 1000)
                self._sessions[session.node] = _Session(session.session, session.granted)
                self._hear_one(session, at)
            elif known.said != session.said:
                self._hear_one(session, at)
        for node in self._sessions.keys() - {session.node for session in sessions}:
            del self._sessions[node]

    def note(self, notes: Sequence[HostNote], now: Instant, change: GrantChange) -> None:
        for note in notes:
            event = self._hosts[note.host].note(note, now, self._rng)
            change.events += [event] if event else []
            change.taken.append(note.id)
            self._dirty.add(note.host)

    def count(self, now: Instant, at: float) -> None:
        """Add the requests that nodes have counted to the hosts' counters."""
        wants: dict[str, dict[Key, HostWantBody]] = defaultdict(dict)
        for node, session in self._sessions.items():
            for name, want in session.wants.items():
                wants[name][node, session.number] = want
        for name, state in self._hosts.items():
            before = state.host
            state.count(wants.get(name, {}), now, at)
            if state.host is not before:
                self._dirty.add(name)

    def divide(self, now: Instant, at: float, change: GrantChange) -> None:
        """Divide the budget of every host that changed or is due, and add the result to `change`."""
        late = {name for name, state in self._hosts.items() if state.due_at is not None and state.due_at <= at}
        changed: set[Key] = set()
        for name in sorted(self._dirty | late):
            state = self._hosts[name]
            event = state.refresh(self._usual, now)
            change.events += [event] if event else []
            before = set(state.shares.holders)
            changed |= state.divide(self._next_version, now, at)
            state.write(change, self._next_id)
            for node, session in before - state.shares.holders.keys():
                self._forget(node, session, name)
            if not state.shares.holders:
                del self._hosts[name]
        self._dirty.clear()
        for node, session in sorted(changed):
            self._sessions[node].version += 1
            change.versions.append((node, session, self._sessions[node].version))

    def due_at(self) -> float | None:
        return min((state.due_at for state in self._hosts.values() if state.due_at is not None), default=None)

    def _is_news(self, session: SessionHosts) -> bool:
        known = self._sessions.get(session.node)
        return known is None or known.number != session.session or known.said != session.said

    def _hear_one(self, session: SessionHosts, at: float) -> None:
        key, known = (session.node, session.session), self._sessions[session.node]
        taken, listed = (0, []) if session.said is None else _decode(session.said)
        known.said, known.wants = session.said, {want.host: want for want in listed}
        held = self._held.get(session.node, {}).get(session.session, set())
        for name in {*known.wants, *held}:
            shares, want = self._hosts[name].shares, known.wants.get(name)
            is_news = shares.want(key, None if want is None else want.wanted, at)
            if want is None or not want.is_pending:
                is_news = shares.acknowledge(key, taken, at, None if want is None else want.in_use) or is_news
            if is_news:
                self._dirty.add(name)
            if key in shares.holders:
                self._held[session.node][session.session].add(name)

    def _end(self, node: NodeId, but: int | None, at: float, within_s: float) -> None:
        for session, names in self._held.get(node, {}).items():
            if session != but:
                self._dirty |= {name for name in names if self._hosts[name].shares.end((node, session), at, within_s)}
        if node in self._sessions and self._sessions[node].number != but:
            del self._sessions[node]

    def _forget(self, node: NodeId, session: int, name: str) -> None:
        self._held[node][session].discard(name)
        if not self._held[node][session]:
            del self._held[node][session]
        if not self._held[node]:
            del self._held[node]

    def _next_version(self, key: Key) -> int:
        node, session = key
        known = self._sessions.get(node)
        return known.version + 1 if known is not None and known.number == session else 0

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
