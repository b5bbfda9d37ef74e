"""Notices and channels for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from crawlfleet.model.notice import Language, Notice, NoticeItem, NoticeState, Severity
from crawlfleet.notices.channel_factory import NoticeChannels
from crawlfleet.ports.notice_channel import Delivery
from testkit.patience import PATIENCE_S

NOW = 1_800_000_000_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_3q2+796tvu/erb7v3q2+796tvu/0AQIDBAUGBwg="


def make_notice(**changes: Any) -> Notice:
    facts: dict[str, Any] = {
        "id": "notice-17",
        "state": NoticeState.FIRING,
        "rule": "failure_rate",
        "severity": Severity.WARNING,
        "scope": "project:shop",
        "created_at": NOW,
        "value": 0.234,
        "threshold": 0.1,
        "since": NOW - 90_000,
        "why": "12 of 52 executions failed, most of them with http 503.",
        "link": "https://crawl.example/alerts/failure_rate",
        "installation": "prod",
    }
    return Notice(**(facts | changes))


def make_large_notice() -> Notice:
    """A notice that is as large as it can be, with what grows most when it is escaped."""
    why = '"<\\[' * 250
    items = tuple(
        NoticeItem("node_down", NoticeState.FIRING, Severity.CRITICAL, f"node:{'节<' * 100}{number}", why=why)
        for number in range(50)
    )
    return make_notice(why=why, scope=f"project:{'项' * 300}", installation="装" * 300, items=items, count=5_000)


async def send_once(
    kind: str,
    fields: Mapping[str, str],
    notice: Notice | None = None,
    *,
    send_s: float = PATIENCE_S,
    language: Language = Language.ENGLISH,
) -> Delivery:
    """Check a configuration, open the channel and send a notice to it, with the time of now."""
    factory = NoticeChannels(["127.0.0.1", "localhost"], send_s=send_s)
    channel = factory.open_channel(kind, factory.check_fields(kind, fields), language)
    return await channel.send(notice or make_notice(), int(time.time() * 1000))
