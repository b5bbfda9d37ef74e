"""For the tests of alerts: a fleet whose channels the test plays, and time that passes when it says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from crawlfleet.bootstrap.master import MasterOptions
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.errors import InvalidInput
from crawlfleet.model.alerts.alert import AlertState
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice
from crawlfleet.ports.notice_channel import ChannelField, ChannelKind, Delivery, NoticeChannel
from crawlfleet.store.store import SqlStore
from tests.integration.faults.faults_kit import Fleet

DELIVERED = Delivery(True, "ok", 200)
REFUSED = Delivery(False, "errcode 310000: keyword", 200)
PASS_S = 1.0


class PlayedChannel:
    def __init__(self, service: PlayedService, name: str) -> None:
        self._service = service
        self._name = name

    async def send(self, notice: Notice, now: Instant) -> Delivery:
        self._service.arrived.append((self._name, notice))
        self._service.has_arrived.set()
        await self._service.gate.wait()
        answers = self._service.answers.get(self._name)
        return answers.popleft() if answers else DELIVERED

    async def close(self) -> None:
        self._service.closed += 1


class PlayedService:
    """Channels of one kind: what arrives is kept, what is answered the test says."""

    def __init__(self, max_notices: int = 60) -> None:
        fields = (ChannelField("name", "its name", is_required=True), ChannelField("key", "its key", is_secret=True))
        self.kinds: Mapping[str, ChannelKind] = {"played": ChannelKind("played", "A test.", fields, max_notices, 60)}
        self.arrived: list[tuple[str, Notice]] = []
        self.answers: dict[str, deque[Delivery]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.has_arrived = asyncio.Event()
        self.closed = 0

    def check_fields(self, kind: str, fields: Mapping[str, str]) -> dict[str, str]:
        if kind not in self.kinds:
            raise InvalidInput("has to be one of: played", field="kind")
        if "name" not in fields:
            raise InvalidInput("is missing", field="name")
        return dict(fields)

    def open_channel(self, kind: str, fields: Mapping[str, str], language: Language) -> NoticeChannel:
        return PlayedChannel(self, fields["name"])

    def answer(self, channel: str, *deliveries: Delivery) -> None:
        self.answers[channel] = deque(deliveries)

    def heard(self, channel: str = "ops") -> list[tuple[str, str]]:
        return [(notice.state.value, notice.rule) for name, notice in self.arrived if name == channel]

    def notices(self, channel: str = "ops") -> list[Notice]:
        return [notice for name, notice in self.arrived if name == channel]


class AlertFleet(Fleet):
    """A fleet whose leader evaluates alerts and sends notices, pass by pass."""

    def __init__(self, store: SqlStore, service: PlayedService | None = None, **options: Any) -> None:
        self.service = service or PlayedService()
        self._broker = MemoryBroker()
        alerts = AlertOptions("https://fleet.example", "test", self.service, **options)
        super().__init__(store, options=MasterOptions(alerts=alerts))

    @property
    def broker_reason(self) -> str | None:
        return self._broker.failure_reason

    @broker_reason.setter
    def broker_reason(self, reason: str | None) -> None:
        vars(self._broker)["failure_reason"] = reason

    def new_broker(self) -> MemoryBroker:
        self._broker = super().new_broker()
        return self._broker

    @classmethod
    async def make(
        cls, store: SqlStore, *channels: str, service: PlayedService | None = None, **options: Any
    ) -> AlertFleet:
        fleet = cls(store, service, **options)
        await fleet.start()
        for name in channels:
            await fleet.add_channel(name)
        return fleet

    async def add_channel(self, name: str, **values: Any) -> None:
        await self.master.alert_parts.channels.put_channel(
            name, "played", {"name": name}, Language.ENGLISH, values.get("is_enabled", True), "ann"
        )

    async def set_rule(self, name: str, **values: Any) -> None:
        await self.master.alert_parts.rules.change_rule(name, lambda before: {**before, **values}, "ann")

    async def evaluate(self) -> None:
        """One pass of the leader, and one of its notifier."""
        await self.master.alert_parts.evaluator.run_once(self.clock.now())
        await self.master.alert_parts.notifier.run_once(self.clock.now())

    async def watch(self, seconds: float, step: float = PASS_S) -> None:
        """Passes over a span of time."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.evaluate()

    async def states(self) -> dict[tuple[str, str], AlertState]:
        return dict((await self.store.load_alerts(self.clock.now())).states)

    async def alert_status(self, rule: str, scope: str = "*") -> str:
        state = (await self.states()).get((rule, scope))
        return "ok" if state is None else state.status.word
