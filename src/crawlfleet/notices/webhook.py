"""The webhook: a notice as JSON, signed as Standard Webhooks says, so that any receiver can verify who sent it.

The signature is HMAC-SHA256 over `id.timestamp.body`. While a secret is rotated there are two, and two signatures in
one header: the receiver accepts the one that it can verify.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.notice import Language, Notice, NoticeItem
from crawlfleet.notices.http_channel import read_by_status
from crawlfleet.notices.http_post import HttpAnswer, PostRequest, encode_body
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import Delivery

BODY_BYTES = 64 << 10
"""The largest body; of a large group the last alerts are left out, and `count` says how many there are."""


class WebhookAdapter:
    """Makes signed requests; any status 2xx is a confirmation."""

    def __init__(self, url: str, secrets: Sequence[bytes], language: Language) -> None:
        self._url = url
        self._secrets = tuple(secrets)
        self._language = language

    def make_request(self, notice: Notice, now: Instant) -> PostRequest:
        body = encode_notice(notice, self._language)
        timestamp = str(now // 1000)
        signatures = [sign_webhook(secret, notice.id, timestamp, body) for secret in self._secrets]
        headers = {
            "webhook-id": notice.id,
            "webhook-timestamp": timestamp,
            "webhook-signature": " ".join(signatures),
        }
        return PostRequest(self._url, body, headers)

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        return read_by_status(answer)


def sign_webhook(secret: bytes, message_id: str, timestamp: str, body: bytes) -> str:
    """Return one signature of a message, with its version."""
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def encode_notice(notice: Notice, language: Language) -> bytes:
    """Encode a notice within `BODY_BYTES`."""
    while True:
        body = encode_body(_describe_notice(notice, language))
        if len(body) <= BODY_BYTES or not notice.items:
            return body
        notice = replace(notice, items=notice.items[: len(notice.items) // 2])


def _describe_notice(notice: Notice, language: Language) -> dict[str, Any]:
    text = write_notice(notice, language)
    return {
        "type": f"alert.{notice.state}",
        "timestamp": to_text(notice.created_at),
        "data": {
            "id": notice.id,
            "state": notice.state,
            "rule": notice.rule,
            "kind": notice.kind or notice.rule,
            "severity": notice.severity,
            "scope": notice.scope,
            "title": text.title,
            "text": text.lead,
            "value": notice.value,
            "threshold": notice.threshold,
            "since": None if notice.since is None else to_text(notice.since),
            "why": notice.why,
            "link": notice.link,
            "installation": notice.installation,
            "reminder": notice.reminder,
            "count": notice.count,
            "items": [_describe_item(item) for item in notice.items],
        },
    }


def _describe_item(item: NoticeItem) -> dict[str, Any]:
    return {
        "state": item.state,
        "rule": item.rule,
        "kind": item.kind or item.rule,
        "severity": item.severity,
        "scope": item.scope,
        "value": item.value,
        "threshold": item.threshold,
        "since": None if item.since is None else to_text(item.since),
        "why": item.why,
    }
