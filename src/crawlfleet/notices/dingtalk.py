"""The custom robot of a DingTalk group. It puts every refusal into an answer with status 200."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote, quote_plus

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import check_token, parse_address
from crawlfleet.notices.dialects import DINGTALK, cut_title, lay_out
from crawlfleet.notices.http_channel import read_by_code
from crawlfleet.notices.http_post import HttpAnswer, PostRequest, encode_body
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import Delivery

BODY_BYTES = 20_000
TEXT_BYTES = 8_000
"""JSON may double the size of a text, and the limit of the service is on the whole body."""
_TITLE_BYTES = 400
_ORIGIN = "https://oapi.dingtalk.com"
_PATH = "/robot/send"
_TOO_OFTEN = {130101, 410100}
_LASTING = {310000, 300001, 300005, 400013, 400101, 400102, 400106}
"""Codes of a wrong keyword, signature, address or token, and of a group or robot that no longer exists."""
_BARRED_S = 600.0
"""A robot that sends too much is barred for ten minutes."""


class DingtalkAdapter:
    def __init__(self, url: str, secret: str, keyword: str, language: Language) -> None:
        self._url = url
        self._secret = secret
        self._keyword = keyword
        self._language = language

    def make_request(self, notice: Notice, now: Instant) -> PostRequest:
        text = write_notice(notice, self._language)
        shown = lay_out(text, DINGTALK, TEXT_BYTES, ending=self._keyword)
        body = {"msgtype": "markdown", "markdown": {"title": cut_title(text, _TITLE_BYTES), "text": shown}}
        return PostRequest(self._signed_url(now), encode_body(body), {})

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        return read_by_code(answer, ("errcode",), too_often=_TOO_OFTEN, lasting=_LASTING, wait_s=_BARRED_S)

    def _signed_url(self, now: Instant) -> str:
        if not self._secret:
            return self._url
        return f"{self._url}&timestamp={now}&sign={quote_plus(sign_dingtalk(self._secret, now))}"


def sign_dingtalk(secret: str, now: Instant) -> str:
    """Return the signature of an instant: the secret is the key, and a part of the message."""
    message = f"{now}\n{secret}"
    return base64.b64encode(hmac.new(secret.encode(), message.encode(), hashlib.sha256).digest()).decode()


def check_dingtalk_url(value: str, guard: AddressGuard) -> str:
    """Return the address of a robot from a pasted address or a token alone. Raises InvalidInput."""
    origin, token = _ORIGIN, value
    if "://" in value:
        address = parse_address("url", value, guard)
        origin, token = address.origin, address.parameters.get("access_token", "")
        if address.path != _PATH or not token:
            raise InvalidInput(f"is no address of a DingTalk robot: {_ORIGIN}{_PATH}?access_token=...", field="url")
    return f"{origin}{_PATH}?access_token={quote(check_token('url', token, 'DingTalk'))}"
