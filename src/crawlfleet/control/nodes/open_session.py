"""Opens the session of a node: its saved outcomes are written first, then what its last session held is freed."""

from __future__ import annotations

from random import Random

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.tokens import is_secret
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.control.support.master_roster import MasterRoster
from crawlfleet.control.support.session_counter import SessionCounter
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.control.tasks.task_types import TYPES_MOST, KnownTypes, check_name
from crawlfleet.errors import InvalidInput, NotAllowed, NotFound
from crawlfleet.model import limits
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import ms
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import NodeCallStore
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.sync import PROTOCOL_VERSION, OpenDown, OpenUp


class OpenSession:
    def __init__(
        self,
        *,
        store: NodeCallStore,
        broker: Broker,
        clock: Clock,
        rng: Random,
        finish: Finish,
        known_types: KnownTypes,
        configure: Configure,
        roster: MasterRoster,
        sessions: SessionCounter,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._finish = finish
        self._known_types = known_types
        self._configure = configure
        self._roster = roster
        self._sessions = sessions

    async def open_session(self, up: OpenUp) -> OpenDown:
        stored_hash = await self._store.secret_hash(up.node)
        if stored_hash is None:
            raise NotFound(f"no node {node_text(up.node)}")
        if not is_secret(up.secret, stored_hash):
            raise NotAllowed("not this node's secret")
        _check(up)
        await self._known_types.put_names(up.task_types)
        await self._finish.finish_reported(up.node, up.outcomes)
        now = self._clock.now()
        decide = task_state_machine.lose_execution("its node began a new session", now, self._rng)
        session, applied = await self._store.open_session(
            up.node, up.slots, up.task_types, decide, now, after=up.after, is_departing=up.is_departing
        )
        if applied is not None:
            self._sessions.note_session(up.node)
            await publish_hints(self._broker, applied)
            await self._broker.signals.send_signals([LOOK, LEADER])
        (node,) = await self._store.load_nodes([up.node])
        config = await self._configure.load_effective_config(node.description.cluster)
        lease_ms = node.description.lease_ms
        return OpenDown(
            session=session,
            lease_ms=lease_ms,
            sync_ms=min(ms(config.settings.sync_interval_s), lease_ms // 3),
            acknowledged=[outcome.execution for outcome in up.outcomes],
            masters=self._roster.addresses_unless(0),
            is_open=applied is not None,
        )


def _check(up: OpenUp) -> None:
    if up.version != PROTOCOL_VERSION:
        raise InvalidInput(f"this master speaks version {PROTOCOL_VERSION}", field="version")
    if not 0 <= up.slots <= limits.SLOTS_MAX:
        raise InvalidInput(f"0 to {limits.SLOTS_MAX}", field="slots")
    if len(up.task_types) > TYPES_MOST:
        raise InvalidInput(f"at most {TYPES_MOST}", field="task_types")
    for name in up.task_types:
        check_name(name)
    if len(up.outcomes) > limits.OUTCOMES_PER_SYNC:
        raise InvalidInput(f"at most {limits.OUTCOMES_PER_SYNC}", field="outcomes")
