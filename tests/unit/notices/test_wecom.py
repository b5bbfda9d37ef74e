"""The robot of WeCom: addresses, message, limit."""

from __future__ import annotations

import json

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.wecom import TEXT_BYTES, WecomAdapter, check_wecom_url
from tests.unit.notices.notice_kit import NOW, make_large_notice, make_notice

KEY = "693a91f6-7a0c-4bc4-97a0-0ec2sifa5aaa"
URL = f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={KEY}"


def content(**changes: object) -> str:
    request = WecomAdapter(URL, Language.CHINESE).make_request(make_notice(**changes), NOW)
    return str(json.loads(request.body)["markdown"]["content"])


def test_a_mention_from_outside_is_no_mention() -> None:
    assert "<@" not in content(why="<@all> look")


def test_the_largest_message_fits_and_keeps_its_link() -> None:
    request = WecomAdapter(URL, Language.CHINESE).make_request(make_large_notice(), NOW)
    shown = json.loads(request.body)["markdown"]["content"]
    assert TEXT_BYTES - 10 <= len(shown.encode()) <= TEXT_BYTES
    assert shown.endswith("[查看](https://crawl.example/alerts/failure_rate)")


@pytest.mark.parametrize("value", [KEY, URL, f"{URL}&debug=1"])
def test_an_address_or_a_key_is_taken(value: str) -> None:
    assert check_wecom_url(value, AddressGuard()) == URL


@pytest.mark.parametrize(
    "value", ["https://qyapi.weixin.qq.com/cgi-bin/webhook/send", "https://qyapi.weixin.qq.com/", "k"]
)
def test_what_is_no_address_of_a_robot_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput):
        check_wecom_url(value, AddressGuard())
