"""The bot of Feishu and Lark: addresses, signature, card."""

from __future__ import annotations

import json

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language, NoticeState, Severity
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.feishu import BODY_BYTES, FeishuAdapter, check_feishu_url, sign_feishu
from crawlfleet.notices.http_post import HttpAnswer
from tests.unit.notices.notice_kit import NOW, make_large_notice, make_notice

TOKEN = "6f1d2c3b-aaaa-4bbb-8ccc-0123456789ab"
URL = f"https://open.feishu.cn/open-apis/bot/v2/hook/{TOKEN}"


def test_the_signature_is_that_of_openssl() -> None:
    # printf '' | openssl dgst -sha256 -mac HMAC -macopt hexkey:$(printf '1800000000\nq2v5y8B/E%%H' | xxd -p) -binary
    assert sign_feishu("q2v5y8B/E%H", 1_800_000_000) == "2XKGx3YVUz+WJ7D2gJZhS+cXh/RZ7raFWa5lsQ7dpUM="


def test_time_and_signature_are_fields_of_the_body() -> None:
    request = FeishuAdapter(URL, "q2v5y8B/E%H", "", Language.ENGLISH).make_request(make_notice(), 1_800_000_000_999)
    body = json.loads(request.body)
    assert body["timestamp"] == "1800000000"
    assert body["sign"] == "2XKGx3YVUz+WJ7D2gJZhS+cXh/RZ7raFWa5lsQ7dpUM="
    assert request.url == URL


@pytest.mark.parametrize(
    ("state", "severity", "colour"),
    [
        (NoticeState.FIRING, Severity.CRITICAL, "red"),
        (NoticeState.FIRING, Severity.WARNING, "orange"),
        (NoticeState.RECOVERED, Severity.CRITICAL, "green"),
        (NoticeState.TEST, Severity.INFO, "blue"),
    ],
)
def test_the_card_has_the_colour_of_the_state(state: NoticeState, severity: Severity, colour: str) -> None:
    notice = make_notice(state=state, severity=severity)
    body = json.loads(FeishuAdapter(URL, "", "", Language.ENGLISH).make_request(notice, NOW).body)
    assert body["card"]["header"]["template"] == colour
    assert "sign" not in body


def test_a_mention_from_outside_is_no_mention() -> None:
    notice = make_notice(why="<at id=all></at> [x](http://evil)")
    body = json.loads(FeishuAdapter(URL, "", "", Language.ENGLISH).make_request(notice, NOW).body)
    content = body["card"]["elements"][0]["content"]
    assert "<at" not in content
    assert "](http://evil" not in content


def test_the_largest_message_fits() -> None:
    request = FeishuAdapter(URL, "s" * 40, "k", Language.CHINESE).make_request(make_large_notice(), NOW)
    assert len(request.body) <= BODY_BYTES


def test_an_older_answer_confirms_too() -> None:
    adapter = FeishuAdapter(URL, "", "", Language.ENGLISH)
    assert adapter.read_answer(HttpAnswer(200, '{"Extra":null,"StatusCode":0,"StatusMessage":"success"}')).is_delivered
    refused = adapter.read_answer(HttpAnswer(200, '{"code":11232,"msg":"frequency limited","StatusCode":0}'))
    assert (refused.is_delivered, refused.retry_after_s) == (False, 60.0)


@pytest.mark.parametrize(
    ("kind", "value", "url"),
    [
        ("feishu", TOKEN, URL),
        ("feishu", URL, URL),
        ("lark", TOKEN, f"https://open.larksuite.com/open-apis/bot/v2/hook/{TOKEN}"),
        ("lark", URL, URL),
    ],
)
def test_an_address_or_a_token_is_taken(kind: str, value: str, url: str) -> None:
    assert check_feishu_url(value, AddressGuard(), kind) == url


@pytest.mark.parametrize(
    "value",
    [
        "https://open.feishu.cn/open-apis/bot/v2/hook/",
        f"https://open.feishu.cn/open-apis/bot/hook/{TOKEN}",
        "https://open.feishu.cn/open-apis/bot/v2/hook/xxxxxxxxx",
        f"https://open.feishu.cn/open-apis/bot/v2/hook/{TOKEN}/../x",
    ],
)
def test_what_is_no_address_of_a_bot_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_feishu_url(value, AddressGuard(), "feishu")
    assert refused.value.field == "url"
