"""Alerts of a real installation arrive at real receivers: by their cause, in time, signed, and again after a kill."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from testkit.notice_receiver import DingtalkService, Fault, NoticeReceiver, ReceivedRequest, accept_all
from testkit.patience import PATIENCE_S, promised
from tests.processes.fleet import Fleet, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
ROBOT_SECRET = "SECc71f0e5a3b9d2846"
LATE_S = 15.0
"""Time between the end of a rule's own span and the arrival of its notice that is promised."""
EXECUTORS = ("--executors", "tests.integration.execution.executors.user_executors")


@pytest.fixture(autouse=True)
def receivers_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_ALERT_ALLOW_HOSTS", "127.0.0.1")
    monkeypatch.setenv("CRAWLFLEET_PUBLIC_URL", "https://crawl.example")


async def add_webhook(running: Fleet, receiver: NoticeReceiver, name: str = "hook") -> None:
    await running.client.put_alert_channel(name, "webhook", {"url": f"{receiver.origin}/in", "secret": SECRET})


async def set_rules(running: Fleet, **rules: dict[str, Any]) -> None:
    for name, values in rules.items():
        await running.client.put_alert_rule(name, **{"for_s": 1, "keep_s": 1, **values})


def verify(request: ReceivedRequest) -> dict[str, Any]:
    body = Webhook(SECRET).verify(request.body, dict(request.headers))
    assert isinstance(body, dict)
    assert body["data"]["id"] == request.headers["webhook-id"]
    return dict(body["data"])


def firing(receiver: NoticeReceiver) -> set[str]:
    """The rules that the receiver was told of as firing."""
    notices = [verify(request) for request in receiver.requests]
    items = [item for notice in notices for item in (notice["items"] or [notice])]
    return {item["rule"] for item in items if item["state"] == "firing"}


async def until_firing(running: Fleet, receiver: NoticeReceiver, rules: Collection[str]) -> None:
    await running.until(
        lambda: firing(receiver) >= set(rules), f"of {sorted(rules)} the receiver has {sorted(firing(receiver))}"
    )


async def until_clear(running: Fleet, rules: Sequence[str]) -> None:
    async def are_clear() -> bool:
        return not {alert.rule for alert in (await running.client.alerts()).alerts} & set(rules)

    await running.until(are_clear, f"{rules} do not clear")


async def test_alerts_fire_and_clear_by_their_causes(tmp_path: Path) -> None:
    robot = DingtalkService(TOKEN, ROBOT_SECRET)
    async with fleet(tmp_path) as running, NoticeReceiver(accept_all) as hook, NoticeReceiver(robot) as group:
        await running.start(*EXECUTORS, workers=2, slots=2)
        await add_webhook(running, hook)
        url = f"{group.origin}/robot/send?access_token={TOKEN}"
        fields = {"url": url, "secret": ROBOT_SECRET}
        await running.client.put_alert_channel("group", "dingtalk", fields, language="zh")
        assert (await running.client.test_alert_channel("group")).is_delivered
        await set_rules(
            running,
            failure_rate={"threshold": 0.5, "least_samples": 10},
            dead_letters={"threshold": 10},
            queue_size={"threshold": 3},
            node_down={},
        )

        # Tasks that fail, more work than there are slots, and a node that dies.
        failing = {"task_type": "fails_as", "parameters": {"error": "input"}, "retry": {"max_retries": 0}}
        await running.submit([failing] * 12)
        await until_firing(running, hook, ["failure_rate", "dead_letters"])
        long_tasks = await running.submit([sleep(600)] * 8)
        await until_firing(running, hook, ["queue_size"])
        await running.workers[0].kill()
        await until_firing(running, hook, ["node_down"])

        facts = {notice["rule"]: notice for notice in map(verify, hook.requests)}
        assert facts["failure_rate"]["value"] == 1.0
        assert facts["dead_letters"]["value"] == 12
        assert facts["queue_size"]["value"] >= 3
        assert "worker-0" in str(facts["node_down"])
        assert all(notice["link"].startswith("https://crawl.example/") for notice in facts.values())
        assert len({notice["id"] for notice in facts.values()}) == len(facts)
        titles = [request.parse_json()["markdown"]["title"] for request in group.requests]
        await running.until(lambda: len(group.requests) >= 5, f"the group has only {titles}")
        shown = " ".join(request.parse_json()["markdown"]["title"] for request in group.requests)
        for title in ("渠道测试", "执行失败率过高", "死信任务大量增加", "排队任务过多", "节点失联"):
            assert title in shown

        # The causes go away; what has a window (failures, dead letters) still fires.
        for task in long_tasks:
            await running.client.cancel(task)
        await running.start_worker("worker-0", *EXECUTORS, slots=2, token="kept-identity-needs-none")
        await until_clear(running, ["queue_size", "node_down"])
        assert not running.has_said(SECRET.removeprefix("whsec_"))
        assert not running.has_said(TOKEN)
        assert not running.has_said(ROBOT_SECRET)


async def test_a_notice_arrives_in_time(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running, NoticeReceiver(accept_all) as hook:
        await running.start(workers=1, slots=1)
        await add_webhook(running, hook)
        for_s = 3
        await set_rules(running, queue_size={"threshold": 3, "for_s": for_s})
        crossed_at = time.monotonic()
        await running.submit([sleep(600)] * 6)
        await until_firing(running, hook, ["queue_size"])
        assert time.monotonic() - crossed_at <= promised(for_s + LATE_S)
        # Its task would run for minutes, and a drain waits for it.
        await running.workers[0].kill()


async def test_a_channel_that_refuses_is_told_on_the_others(tmp_path: Path) -> None:
    robot = DingtalkService(TOKEN, keyword="never written")
    async with fleet(tmp_path) as running, NoticeReceiver(accept_all) as hook, NoticeReceiver(robot) as group:
        await running.start(workers=1, slots=1)
        await add_webhook(running, hook)
        url = f"{group.origin}/robot/send?access_token={TOKEN}"
        await running.client.put_alert_channel("group", "dingtalk", {"url": url})
        delivery = await running.client.test_alert_channel("group")
        assert (delivery.is_delivered, delivery.status) == (False, 200)
        assert "keywords not in content" in delivery.answer
        assert TOKEN not in delivery.answer
        await set_rules(running, queue_size={"threshold": 3}, channel_failing={})
        await running.submit([sleep(600)] * 6)
        await until_firing(running, hook, ["queue_size", "channel_failing"])
        failing_notice = next(notice for notice in map(verify, hook.requests) if notice["rule"] == "channel_failing")
        assert failing_notice["scope"].startswith("channel")
        assert "keywords not in content" in str(failing_notice)
        assert TOKEN not in str(failing_notice)
        # A person mends it: what waited is delivered at once, and the alert is over.
        await running.client.put_alert_channel("group", "dingtalk", {"url": url, "keyword": "never written"})
        await until_clear(running, ["channel_failing"])
        titles = [request.parse_json()["markdown"]["title"] for request in group.requests]
        assert any("Too many tasks wait" in title for title in titles)
        await running.workers[0].kill()


async def test_a_leader_killed_between_sending_and_marking_sends_a_copy_with_the_same_id(tmp_path: Path) -> None:
    async with fleet(tmp_path) as running, NoticeReceiver(accept_all, Fault.HANG) as hook:
        await running.start(workers=1, slots=1)
        await add_webhook(running, hook)
        await set_rules(running, queue_size={"threshold": 3})
        await running.submit([sleep(600)] * 6)
        async with asyncio.timeout(PATIENCE_S):
            await hook.wait_for_requests(1)
        # The receiver has the notice and holds its answer: the master cannot have marked it.
        running.master.signal(signal.SIGKILL)
        await running.master.child.wait()
        await running.client.close()
        hook.fault = Fault.NONE
        await running.start_master()

        async def is_delivered() -> bool:
            return any(notice.status == "delivered" for notice in (await running.client.notices()).notices)

        await running.until(is_delivered, "the notice is not delivered", 2 * PATIENCE_S)
        await running.workers[0].kill()
        copies = [request.headers["webhook-id"] for request in hook.requests if verify(request)["rule"] == "queue_size"]
        assert 1 <= len(copies) <= 2
        assert len(set(copies)) == 1
