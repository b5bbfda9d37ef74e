"""From the cause of an alert over the store to the services, through the real channels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from crawlfleet.bootstrap.master import MasterOptions
from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.model.notice import Language
from crawlfleet.notices.channel_factory import NoticeChannels
from crawlfleet.store.store import SqlStore
from testkit.notice_receiver import (
    DingtalkService,
    Fault,
    FeishuService,
    NoticeReceiver,
    SlackService,
    WecomService,
    accept_all,
)
from testkit.patience import PATIENCE_S
from tests.integration.faults.faults_kit import Fleet, PlayedNode

pytestmark = pytest.mark.integration

TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
SLACK_PATH = "/services/T0AAA1111/B0BBB2222/c3d4e5f6a7b8c9d0e1f2"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SERVICES: dict[str, tuple[Any, str, dict[str, str]]] = {
    "webhook": (accept_all, "/in", {"secret": SECRET}),
    "dingtalk": (DingtalkService(TOKEN), f"/robot/send?access_token={TOKEN}", {}),
    "feishu": (FeishuService(TOKEN), f"/open-apis/bot/v2/hook/{TOKEN}", {}),
    "wecom": (WecomService(TOKEN), f"/cgi-bin/webhook/send?key={TOKEN}", {}),
    "slack": (SlackService(SLACK_PATH), SLACK_PATH, {}),
}


class ToldFleet(Fleet):
    """A fleet whose notices go through real channels to receivers in this process."""

    def __init__(self, store: SqlStore) -> None:
        alerts = AlertOptions("https://fleet.example", "test", NoticeChannels(["127.0.0.1"], send_s=PATIENCE_S))
        super().__init__(store, options=MasterOptions(alerts=alerts))
        self.receivers: dict[str, NoticeReceiver] = {}

    async def add_channel(self, kind: str, receivers: AsyncExitStack) -> NoticeReceiver:
        service, path, more = SERVICES[kind]
        receiver = await receivers.enter_async_context(NoticeReceiver(service))
        fields = {"url": receiver.origin + path, **more}
        await self.master.alert_parts.channels.put_channel(kind, kind, fields, Language.CHINESE, True, "ann")
        self.receivers[kind] = receiver
        return receiver

    async def watch(self, seconds: int, alive: list[PlayedNode], step_s: int = 2) -> None:
        """Passes of the evaluator and the notifier over a span in which only these nodes sync."""
        for _ in range(seconds // step_s):
            self.clock.advance(step_s)
            for node in alive:
                await node.sync()
            await self.master.reaper.run_once(self.clock.now())
            await self.master.alert_parts.evaluator.run_once(self.clock.now())
            await self.master.alert_parts.notifier.run_once(self.clock.now())


@pytest.fixture
async def receivers() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def test_500_nodes_lost_at_once_make_at_most_two_messages_in_each_channel(
    store: SqlStore, receivers: AsyncExitStack
) -> None:
    fleet = ToldFleet(store)
    await fleet.start()
    for kind in SERVICES:
        await fleet.add_channel(kind, receivers)
    lost = [await fleet.node() for _ in range(500)]
    alive = await fleet.node()
    await fleet.watch(120, [alive])
    counts = {kind: len(receiver.requests) for kind, receiver in fleet.receivers.items()}
    assert all(1 <= count <= 2 for count in counts.values()), counts
    told = [request.parse_json()["data"] for request in fleet.receivers["webhook"].requests]
    assert sum(notice["count"] for notice in told) == len(lost)
    assert {notice["rule"] for notice in told} == {"node_down"}
    assert all(len(notice["items"]) <= 50 for notice in told)
    # They come back: one message more for each group that was told.
    for node in lost:
        await node.open()
    await fleet.watch(420, [*lost[:1], alive], 6)
    states = [request.parse_json()["data"]["state"] for request in fleet.receivers["webhook"].requests]
    assert states.count("firing") <= 2


async def test_a_service_that_is_down_for_a_while_gets_what_it_missed_once(
    store: SqlStore, receivers: AsyncExitStack
) -> None:
    fleet = ToldFleet(store)
    await fleet.start()
    hook = await fleet.add_channel("webhook", receivers)
    robot = await fleet.add_channel("dingtalk", receivers)
    robot.fault = Fault.PAGE
    lost, alive = await fleet.node(), await fleet.node()
    await lost.sync()
    await fleet.watch(90, [alive])
    tried = len(robot.requests)
    assert tried >= 2
    robot.fault = Fault.NONE
    await fleet.watch(600, [alive], 6)
    delivered = robot.requests[tried:]
    assert len(delivered) >= 1
    titles = [request.parse_json()["markdown"]["title"] for request in delivered]
    assert sum("节点失联" in title for title in titles) == 1
    # The webhook heard of the channel that failed, and nothing of the node a second time.
    rules = [request.parse_json()["data"]["rule"] for request in hook.requests]
    assert rules.count("node_down") == 1
    assert "channel_failing" in rules
