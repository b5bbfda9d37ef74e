"""The robot of a group in WeCom (WeChat Work)."""

from __future__ import annotations

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import check_token, parse_address
from crawlfleet.notices.dialects import WECOM, lay_out
from crawlfleet.notices.http_channel import read_by_code
from crawlfleet.notices.http_post import HttpAnswer, PostRequest, encode_body
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import Delivery

TEXT_BYTES = 2_048
_ORIGIN = "https://qyapi.weixin.qq.com"
_PATH = "/cgi-bin/webhook/send"
_TOO_OFTEN = {45009, 45033}
_LASTING = {93000, 40014, 40058}
"""Codes of an address or a message that the service does not accept."""
_WAIT_S = 60.0


class WecomAdapter:
    def __init__(self, url: str, language: Language) -> None:
        self._url = url
        self._language = language

    def make_request(self, notice: Notice, now: Instant) -> PostRequest:
        content = lay_out(write_notice(notice, self._language), WECOM, TEXT_BYTES)
        return PostRequest(self._url, encode_body({"msgtype": "markdown", "markdown": {"content": content}}), {})

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        return read_by_code(answer, ("errcode",), too_often=_TOO_OFTEN, lasting=_LASTING, wait_s=_WAIT_S)


def check_wecom_url(value: str, guard: AddressGuard) -> str:
    """Return the address of a robot from a pasted address or a key alone. Raises InvalidInput."""
    origin, key = _ORIGIN, value
    if "://" in value:
        address = parse_address("url", value, guard)
        origin, key = address.origin, address.parameters.get("key", "")
        if address.path != _PATH or not key:
            raise InvalidInput(f"is no address of a WeCom robot: {_ORIGIN}{_PATH}?key=...", field="url")
    return f"{origin}{_PATH}?key={check_token('url', key, 'WeCom')}"
