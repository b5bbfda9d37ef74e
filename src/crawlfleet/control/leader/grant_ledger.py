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

from crawlfleet.control.leader.host_grant_state import HostGrantState, SessionKey
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.host_store import GrantChange, HostNote, SessionHosts
from crawlfleet.wire.sync import HostWantBody

_decode_report = msgspec.json.Decoder(tuple[int, list[HostWantBody]]).decode
_encode_json = msgspec.json.Encoder().encode


def encode_host_report(acknowledged_version: int, wants: Sequence[HostWantBody]) -> bytes | None:
    """Encode a session's report on hosts as it is stored with its lease; None for a session that uses no host."""
    return _encode_json((acknowledged_version, wants)) if acknowledged_version or wants else None


@dataclass(slots=True)
class _SessionReport:
    session: int
    granted_version: int
    report: bytes | None = None
    wants: dict[str, HostWantBody] = field(default_factory=dict)


class GrantLedger:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._hosts: dict[str, HostGrantState] = {}
        self._sessions: dict[NodeId, _SessionReport] = {}
        self._hosts_by_session: dict[NodeId, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        """Names of the hosts of which a session has a share, by node and session."""
        self._changed_hosts: set[str] = set()
        self._last_id = 0
        self._defaults = HostLimits()

    def __len__(self) -> int:
        return len(self._hosts)

    def load_shares(self, shares: Sequence[HostShare], hosts: Mapping[str, Host], now_mono: float) -> None:
        """Replace the ledger by what the store has."""
        self._hosts.clear()
        self._sessions.clear()
        self._hosts_by_session.clear()
        self._changed_hosts.clear()
        self._last_id = max((share.id for share in shares), default=0)
        self.load_hosts({share.host for share in shares}, hosts, now_mono)
        for row in shares:
            self._hosts[row.host].load_share(row, now_mono)
            self._hosts_by_session[row.node][row.session].add(row.host)

    def unknown_hosts(self, sessions: Sequence[SessionHosts], notes: Sequence[HostNote]) -> set[str]:
        """Names of the hosts to be read from the store before the reports and notes can be applied."""
        names = {note.host for note in notes if note.kind is HostNoteKind.CHANGED or note.host not in self._hosts}
        for session in sessions:
            if session.is_open and session.said is not None and self._is_changed(session):
                names |= {want.host for want in _decode_report(session.said)[1] if want.host not in self._hosts}
        return names

    def load_hosts(self, names: Iterable[str], hosts: Mapping[str, Host], now_mono: float) -> None:
        """Add hosts, or update their settings, from what the store has of them."""
        for name in names:
            host = hosts.get(name, Host(name))
            if name in self._hosts:
                self._hosts[name].apply_settings(host)
            else:
                self._hosts[name] = HostGrantState(host, now_mono)
            self._changed_hosts.add(name)

    def set_defaults(self, defaults: HostLimits) -> None:
        """Set the limits of hosts that have none of their own."""
        if defaults != self._defaults:
            self._defaults = defaults
            self._changed_hosts |= self._hosts.keys()

    def apply_session_reports(self, sessions: Sequence[SessionHosts], now_mono: float) -> None:
        """Apply what sessions want and have acknowledged, and end the shares of sessions that are over."""
        for session in sessions:
            last_report = self._sessions.get(session.node)
            if not session.is_open:
                self._end_sessions(session.node, None, now_mono, 0.0)
            elif last_report is None or last_report.session != session.session:
                # Replaced, not ended: an old session's processes may go on until its lease is over.
                self._end_sessions(session.node, session.session, now_mono, session.lease_ms / 1000)
                self._sessions[session.node] = _SessionReport(session.session, session.granted)
                self._apply_report(session, now_mono)
            elif last_report.report != session.said:
                self._apply_report(session, now_mono)
        for node in self._sessions.keys() - {session.node for session in sessions}:
            del self._sessions[node]

    def apply_host_notes(self, notes: Sequence[HostNote], now: Instant, change: GrantChange) -> None:
        for note in notes:
            event = self._hosts[note.host].apply_note(note, now, self._rng)
            change.events += [event] if event else []
            change.taken.append(note.id)
            self._changed_hosts.add(note.host)

    def add_request_counts(self, now: Instant, now_mono: float) -> None:
        """Add the requests that nodes have counted to the hosts' counters."""
        wants: dict[str, dict[SessionKey, HostWantBody]] = defaultdict(dict)
        for node, session in self._sessions.items():
            for name, want in session.wants.items():
                wants[name][node, session.session] = want
        for name, state in self._hosts.items():
            before = state.host
            state.add_request_counts(wants.get(name, {}), now, now_mono)
            if state.host is not before:
                self._changed_hosts.add(name)

    def divide_budgets(self, now: Instant, now_mono: float, change: GrantChange) -> None:
        """Divide the budget of every host that changed or is due, and add the result to `change`."""
        due_hosts = {
            name for name, state in self._hosts.items() if state.due_at is not None and state.due_at <= now_mono
        }
        changed: set[SessionKey] = set()
        for name in sorted(self._changed_hosts | due_hosts):
            state = self._hosts[name]
            event = state.refresh_budget(self._defaults, now)
            change.events += [event] if event else []
            before = set(state.shares.holders)
            changed |= state.divide_budget(self._next_version, now, now_mono)
            state.collect_changes(change, self._next_id)
            for node, session in before - state.shares.holders.keys():
                self._forget_share(node, session, name)
            if not state.shares.holders:
                del self._hosts[name]
        self._changed_hosts.clear()
        for node, session in sorted(changed):
            self._sessions[node].granted_version += 1
            change.versions.append((node, session, self._sessions[node].granted_version))

    def next_due_at(self) -> float | None:
        return min((state.due_at for state in self._hosts.values() if state.due_at is not None), default=None)

    def _is_changed(self, session: SessionHosts) -> bool:
        last_report = self._sessions.get(session.node)
        return last_report is None or last_report.session != session.session or last_report.report != session.said

    def _apply_report(self, session: SessionHosts, now_mono: float) -> None:
        key, last_report = (session.node, session.session), self._sessions[session.node]
        acknowledged_version, wants = (0, []) if session.said is None else _decode_report(session.said)
        last_report.report, last_report.wants = session.said, {want.host: want for want in wants}
        held_hosts = self._hosts_by_session.get(session.node, {}).get(session.session, set())
        for name in {*last_report.wants, *held_hosts}:
            shares, want = self._hosts[name].shares, last_report.wants.get(name)
            is_changed = shares.set_wanted(key, None if want is None else want.wanted, now_mono)
            if want is None or not want.is_pending:
                is_changed = (
                    shares.acknowledge_version(
                        key, acknowledged_version, now_mono, None if want is None else want.in_use
                    )
                    or is_changed
                )
            if is_changed:
                self._changed_hosts.add(name)
            if key in shares.holders:
                self._hosts_by_session[session.node][session.session].add(name)

    def _end_sessions(self, node: NodeId, except_session: int | None, now_mono: float, within_s: float) -> None:
        for session, names in self._hosts_by_session.get(node, {}).items():
            if session != except_session:
                self._changed_hosts |= {
                    name for name in names if self._hosts[name].shares.end_holder((node, session), now_mono, within_s)
                }
        if node in self._sessions and self._sessions[node].session != except_session:
            del self._sessions[node]

    def _forget_share(self, node: NodeId, session: int, name: str) -> None:
        self._hosts_by_session[node][session].discard(name)
        if not self._hosts_by_session[node][session]:
            del self._hosts_by_session[node][session]
        if not self._hosts_by_session[node]:
            del self._hosts_by_session[node]

    def _next_version(self, key: SessionKey) -> int:
        node, session = key
        last_report = self._sessions.get(node)
        return last_report.granted_version + 1 if last_report is not None and last_report.session == session else 0

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
