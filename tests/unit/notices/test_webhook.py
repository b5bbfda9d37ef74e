"""The signed webhook: what the library of Standard Webhooks verifies, and the body."""

from __future__ import annotations

import json

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from crawlfleet.model.notice import Language, NoticeState
from crawlfleet.notices.channel_fields import parse_webhook_secret
from crawlfleet.notices.webhook import BODY_BYTES, encode_notice, sign_webhook
from testkit.notice_receiver import NoticeReceiver, ReceivedRequest, accept_all
from tests.unit.notices.notice_kit import NOW, OTHER_SECRET, SECRET, make_large_notice, make_notice, send_once


async def receive(**secrets: str) -> ReceivedRequest:
    async with NoticeReceiver(accept_all) as receiver:
        delivery = await send_once("webhook", {"url": f"{receiver.origin}/hook?team=7", **secrets})
    assert delivery.is_delivered
    return receiver.requests[0]


async def test_the_library_verifies_the_signature() -> None:
    request = await receive(secret=SECRET)
    body = Webhook(SECRET).verify(request.body, dict(request.headers))
    assert body["type"] == "alert.firing"
    assert body["data"]["id"] == request.headers["webhook-id"] == "notice-17"
    assert (request.path, request.query) == ("/hook", {"team": "7"})
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER_SECRET).verify(request.body, dict(request.headers))


async def test_a_body_that_was_changed_is_not_verified() -> None:
    request = await receive(secret=SECRET)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(request.body.replace(b"warning", b"info"), dict(request.headers))


async def test_during_a_rotation_either_secret_verifies() -> None:
    request = await receive(secret=SECRET, previous_secret=OTHER_SECRET)
    for secret in (SECRET, OTHER_SECRET):
        Webhook(secret).verify(request.body, dict(request.headers))
    assert len(request.headers["webhook-signature"].split(" ")) == 2


def test_a_signature_is_that_of_the_published_example() -> None:
    # Made with openssl: `openssl dgst -sha256 -mac HMAC -macopt hexkey:...` over `id.timestamp.body`.
    key = parse_webhook_secret("secret", SECRET)
    signature = sign_webhook(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_body_has_every_fact_of_the_notice() -> None:
    body = json.loads(encode_notice(make_notice(rule="shop_failures", kind="failure_rate"), Language.CHINESE))
    assert body == {
        "type": "alert.firing",
        "timestamp": "2027-01-15T08:00:00.000Z",
        "data": {
            "id": "notice-17",
            "state": "firing",
            "rule": "shop_failures",
            "kind": "failure_rate",
            "severity": "warning",
            "scope": "project:shop",
            "title": "[警告] 执行失败率过高：项目 shop (prod)",
            "text": "23.4 % 的执行失败或超时，阈值为 10 %。",
            "value": 0.234,
            "threshold": 0.1,
            "since": "2027-01-15T07:58:30.000Z",
            "why": "12 of 52 executions failed, most of them with http 503.",
            "link": "https://crawl.example/alerts/failure_rate",
            "installation": "prod",
            "reminder": 0,
            "count": 1,
            "items": [],
        },
    }


def test_a_large_group_is_cut_to_whole_items_and_keeps_its_count() -> None:
    notice = make_large_notice()
    body = encode_notice(notice, Language.ENGLISH)
    assert len(body) <= BODY_BYTES
    data = json.loads(body)["data"]
    assert data["count"] == 5_000
    assert 0 < len(data["items"]) < len(notice.items)


def test_a_test_is_marked_as_one() -> None:
    notice = make_notice(state=NoticeState.TEST, rule="test", value=None, threshold=None, since=None, created_at=NOW)
    assert json.loads(encode_notice(notice, Language.ENGLISH))["type"] == "alert.test"
