"""The robot of DingTalk: addresses, signature, message."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.dingtalk import BODY_BYTES, DingtalkAdapter, check_dingtalk_url, sign_dingtalk
from crawlfleet.notices.http_post import HttpAnswer
from tests.unit.notices.notice_kit import NOW, make_large_notice, make_notice

TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
URL = f"https://oapi.dingtalk.com/robot/send?access_token={TOKEN}"


def test_the_signature_is_that_of_openssl() -> None:
    # printf '1800000000123\n%s' $S | openssl dgst -sha256 -hmac $S -binary | base64
    assert sign_dingtalk("SECc71f0e5a3b9d2846", 1_800_000_000_123) == "+YNHHz7s5qOCeIPTWGFWWwRSzlkXJyn0wvEpOWxewwE="


def test_time_and_signature_are_parameters_of_the_address() -> None:
    adapter = DingtalkAdapter(URL, "SECc71f0e5a3b9d2846", "", Language.ENGLISH)
    request = adapter.make_request(make_notice(), 1_800_000_000_123)
    query = parse_qs(urlsplit(request.url).query)
    assert query == {
        "access_token": [TOKEN],
        "timestamp": ["1800000000123"],
        "sign": ["+YNHHz7s5qOCeIPTWGFWWwRSzlkXJyn0wvEpOWxewwE="],
    }
    assert "+" not in request.url


def test_the_message_is_markdown_with_a_title_of_its_own() -> None:
    request = DingtalkAdapter(URL, "", "crawl", Language.CHINESE).make_request(make_notice(), NOW)
    body = json.loads(request.body)
    assert body["msgtype"] == "markdown"
    assert body["markdown"]["title"] == "[警告] 执行失败率过高：项目 shop (prod)"
    assert body["markdown"]["text"].splitlines()[0] == "### ［警告］ 执行失败率过高：项目 shop (prod)  "
    assert body["markdown"]["text"].endswith("[查看](https://crawl.example/alerts/failure_rate)  \ncrawl")


def test_the_largest_message_fits() -> None:
    request = DingtalkAdapter(URL, "", "crawl", Language.CHINESE).make_request(make_large_notice(), NOW)
    assert len(request.body) <= BODY_BYTES


@pytest.mark.parametrize(
    ("code", "retry_after_s", "is_permanent"),
    [(130101, 600.0, False), (410100, 600.0, False), (310000, None, True), (-1, None, False)],
)
def test_the_codes_of_a_refusal(code: int, retry_after_s: float | None, is_permanent: bool) -> None:
    adapter = DingtalkAdapter(URL, "", "", Language.ENGLISH)
    delivery = adapter.read_answer(HttpAnswer(200, json.dumps({"errcode": code, "errmsg": "words of the service"})))
    assert not delivery.is_delivered
    assert (delivery.retry_after_s, delivery.is_permanent) == (retry_after_s, is_permanent)
    assert "words of the service" in delivery.answer


@pytest.mark.parametrize(
    "value", [TOKEN, URL, f"{URL}&timestamp=1&sign=abc", f"HTTPS://oapi.dingtalk.com/robot/send?access_token={TOKEN}#x"]
)
def test_an_address_or_a_token_is_taken(value: str) -> None:
    assert check_dingtalk_url(value, AddressGuard()).lower() == URL.lower()


@pytest.mark.parametrize(
    "value",
    [
        "https://oapi.dingtalk.com/robot/send",
        "https://oapi.dingtalk.com/robot/send?access_token=xxx",
        "https://oapi.dingtalk.com/other?access_token=a1b2c3d4e5f6",
        "https://oapi.dingtalk.com/robot/send?access_token=YOUR_ACCESS_TOKEN",
        "a token",
        "../../etc/passwd",
    ],
)
def test_what_is_no_address_of_a_robot_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_dingtalk_url(value, AddressGuard())
    assert refused.value.field == "url"
