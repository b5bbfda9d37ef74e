"""Properties of signatures: the library verifies whatever is signed, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from crawlfleet.notices.dingtalk import sign_dingtalk
from crawlfleet.notices.feishu import sign_feishu
from crawlfleet.notices.webhook import sign_webhook

ids = st.text("abcXYZ019-_", min_size=1, max_size=40)
keys = st.binary(min_size=24, max_size=64)
bodies = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(keys, ids, bodies, bodies)
def test_the_library_verifies_what_was_signed_and_nothing_else(key: bytes, name: str, body: str, other: str) -> None:
    timestamp = str(int(time.time()))
    headers = {
        "webhook-id": name,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign_webhook(key, name, timestamp, body.encode()),
    }
    library = Webhook("whsec_" + base64.b64encode(key).decode())
    library.verify(body, headers, json_parse=False)
    if other != body:
        with pytest.raises(WebhookVerificationError):
            library.verify(other, headers, json_parse=False)


@given(st.text(min_size=1, max_size=90).filter(str.isprintable), st.integers(0, 1 << 42))
def test_the_robots_signatures_are_hmac_by_its_definition(secret: str, instant: int) -> None:
    signed = f"{instant}\n{secret}".encode()
    assert base64.b64decode(sign_dingtalk(secret, instant)) == hmac_by_definition(secret.encode(), signed)
    assert base64.b64decode(sign_feishu(secret, instant)) == hmac_by_definition(signed, b"")


def hmac_by_definition(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 as RFC 2104 defines it."""
    padded = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + message).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()
