"""The custom bot of a group in Feishu or Lark: the same service under two names and addresses."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import check_token, parse_address
from crawlfleet.notices.dialects import FEISHU, cut_title, lay_out
from crawlfleet.notices.http_channel import read_by_code
from crawlfleet.notices.http_post import HttpAnswer, PostRequest, encode_body
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import Delivery

BODY_BYTES = 20_000
TEXT_BYTES = 8_000
"""JSON may double the size of a text, and the limit of the service is on the whole body."""
ORIGINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
_TITLE_BYTES = 400
_PATH = "/open-apis/bot/v2/hook/"
_TOO_OFTEN = {11232, 11233, 99991400}
_LASTING = {19001, 19002, 19021, 19022, 19024}
"""Codes of a wrong token, signature, address or keyword."""
_WAIT_S = 60.0
_COLOURS = {Severity.INFO: "blue", Severity.WARNING: "orange", Severity.CRITICAL: "red"}


class FeishuAdapter:
    def __init__(self, url: str, secret: str, keyword: str, language: Language) -> None:
        self._url = url
        self._secret = secret
        self._keyword = keyword
        self._language = language

    def make_request(self, notice: Notice, now: Instant) -> PostRequest:
        text = write_notice(notice, self._language)
        content = lay_out(text, FEISHU, TEXT_BYTES, ending=self._keyword)
        colour = "green" if notice.state is NoticeState.RECOVERED else _COLOURS[notice.severity]
        body: dict[str, Any] = {
            "msg_type": "interactive",
            "card": {
                "config": {"wide_screen_mode": True},
                "header": {
                    "template": colour,
                    "title": {"tag": "plain_text", "content": cut_title(text, _TITLE_BYTES)},
                },
                "elements": [{"tag": "markdown", "content": content}],
            },
        }
        if self._secret:
            timestamp = now // 1000
            body |= {"timestamp": str(timestamp), "sign": sign_feishu(self._secret, timestamp)}
        return PostRequest(self._url, encode_body(body), {})

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        # Older releases of the service answer with StatusCode alone.
        names = ("code", "StatusCode")
        return read_by_code(answer, names, too_often=_TOO_OFTEN, lasting=_LASTING, wait_s=_WAIT_S)


def sign_feishu(secret: str, timestamp: int) -> str:
    """Return the signature of a time in seconds: time and secret are the key, and the message is empty."""
    key = f"{timestamp}\n{secret}".encode()
    return base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


def check_feishu_url(value: str, guard: AddressGuard, kind: str) -> str:
    """Return the address of a bot from a pasted address or a token alone. Raises InvalidInput."""
    origin, token = ORIGINS[kind], value
    if "://" in value:
        address = parse_address("url", value, guard)
        origin, token = address.origin, address.path.removeprefix(_PATH)
        if not address.path.startswith(_PATH) or not token:
            raise InvalidInput(f"is no address of a bot: {ORIGINS[kind]}{_PATH}...", field="url")
    return f"{origin}{_PATH}{check_token('url', token, kind.capitalize())}"
