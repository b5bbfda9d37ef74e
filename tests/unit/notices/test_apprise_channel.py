"""Channels through apprise, in its process: against a receiver that behaves as Gotify does."""

from __future__ import annotations

import json

import apprise
import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.apprise_channel import PLAIN_SCHEMES, SCHEMES, AppriseChannel, check_apprise_url
from testkit.notice_receiver import Fault, NoticeReceiver, ReceivedRequest
from testkit.patience import PATIENCE_S
from tests.unit.notices.notice_kit import NOW, make_notice, send_once

TOKEN = "Abcdef123456-x"


def gotify(request: ReceivedRequest) -> tuple[int, str]:
    if request.path != "/message" or request.headers.get("x-gotify-key") != TOKEN:
        return 401, json.dumps({"error": "Unauthorized", "errorDescription": f"token {TOKEN} is wrong"})
    return 200, json.dumps({"id": 1})


async def test_a_notice_goes_through_apprise() -> None:
    async with NoticeReceiver(gotify) as receiver:
        delivery = await send_once("apprise", {"url": f"gotify://127.0.0.1:{receiver.port}/{TOKEN}"})
    assert delivery.is_delivered, delivery
    body = receiver.requests[0].parse_json()
    assert body["title"] == "[WARNING] Many executions fail: project shop (prod)"
    assert "Value: 23.4 %" in body["message"]


async def test_the_words_of_apprise_come_back_without_the_secret() -> None:
    async with NoticeReceiver(lambda _request: (401, f"token {TOKEN} is wrong")) as receiver:
        delivery = await send_once("apprise", {"url": f"gotify://127.0.0.1:{receiver.port}/{TOKEN}"})
    assert not delivery.is_delivered
    assert "401" in delivery.answer
    assert TOKEN not in delivery.answer


async def test_a_redirect_is_not_followed() -> None:
    async with NoticeReceiver(gotify, Fault.REDIRECT) as receiver:
        delivery = await send_once("apprise", {"url": f"gotify://127.0.0.1:{receiver.port}/{TOKEN}"})
    assert not delivery.is_delivered
    assert [request.path for request in receiver.requests] == ["/message"]


async def test_an_address_that_is_not_allowed_is_not_connected_to() -> None:
    async with NoticeReceiver(gotify) as receiver:
        url = f"gotify://127.0.0.1:{receiver.port}/{TOKEN}"
        channel = AppriseChannel(url, [], "list it", Language.ENGLISH, send_s=PATIENCE_S)
        delivery = await channel.send(make_notice(), NOW)
    assert (delivery.is_delivered, delivery.is_permanent) == (False, True)
    assert delivery.answer == "127.0.0.1 is loopback: list it"
    assert receiver.requests == []


async def test_a_service_that_hangs_is_left_in_time() -> None:
    async with NoticeReceiver(gotify, Fault.HANG) as receiver:
        url = f"gotify://127.0.0.1:{receiver.port}/{TOKEN}?rto=600"
        delivery = await send_once("apprise", {"url": url}, send_s=0.5)
    assert delivery.answer == "no answer within 0.5 s"


async def test_an_address_that_apprise_does_not_understand_is_told_as_lasting() -> None:
    delivery = await send_once("apprise", {"url": "tgram://not-a-token"})
    assert (delivery.is_delivered, delivery.is_permanent) == (False, True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_scheme_is_one_of_apprise() -> None:
    schemas = apprise.Apprise().details()["schemas"]
    secure = {scheme for schema in schemas for scheme in schema["secure_protocols"] or []}
    plain = {scheme for schema in schemas for scheme in schema["protocols"] or []}
    assert secure >= SCHEMES
    assert plain >= PLAIN_SCHEMES
    assert {f"{scheme}s" for scheme in PLAIN_SCHEMES} <= SCHEMES


@pytest.mark.parametrize(
    "value",
    [
        "gotify://127.0.0.1/Abcdef123456",
        "json://example.com/hook",
        "mailtos://me:secret9@example.com",
        "dingtalk://a1b2c3d4e5f6",
        "syslog://local0",
        "file:///etc/passwd",
        "tgram://",
        "tgram",
        "tgram://YOUR_TOKEN/1",
        "gotify://[::1/x1",
    ],
)
def test_what_may_not_be_used_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_apprise_url(value, AddressGuard())
    assert refused.value.field == "url"
    rest = value.partition("://")[2]
    assert not rest or rest not in str(refused.value)
