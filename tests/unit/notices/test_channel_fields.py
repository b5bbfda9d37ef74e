"""Fields of channels: placeholders, addresses, secrets."""

from __future__ import annotations

import base64

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import (
    check_known_fields,
    check_secret,
    check_token,
    parse_address,
    parse_webhook_secret,
)
from crawlfleet.ports.notice_channel import ChannelField

FIELDS = {
    "url": ChannelField("url", "the address", is_required=True, is_secret=True),
    "note": ChannelField("note", "x"),
}


@pytest.mark.parametrize(
    "value",
    [
        "changeme",
        "CHANGE_ME",
        "change-me-please",
        "xxx",
        "XXXXXXXX",
        "YOUR_TOKEN",
        "your-webhook-url",
        "https://hooks.example/YOUR_SECRET",
        "https://oapi.dingtalk.com/robot/send?access_token=xxxxxxxx",
        "<token>",
        "${DINGTALK_TOKEN}",
        "{{ token }}",
        "password",
        "secret",
        "placeholder",
        "********",
        "...",
        "aaaaaaaa",
        "todo",
    ],
)
def test_a_placeholder_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="placeholder") as refused:
        check_secret("secret", value)
    assert refused.value.field == "secret"


@pytest.mark.parametrize(
    "value", ["a1b2c3d4e5f60718", "SECc71f0e5a3b9d2846", "correct horse battery", "Tok3n-x", "testing-7f3"]
)
def test_a_real_secret_is_taken(value: str) -> None:
    check_secret("secret", value)


def test_unknown_missing_and_unusable_values_are_named() -> None:
    for given, field, words in [
        ({"url": "abc", "colour": "red"}, "colour", "unknown field: this kind of channel has url, note"),
        ({}, "url", "is needed: the address"),
        ({"url": "  "}, "url", "is needed: the address"),
        ({"url": "abc", "note": "x" * 2_001}, "note", "is longer than 2000 characters"),
        ({"url": "abc", "note": "a\nb"}, "note", "has control characters"),
        ({"url": "abc", "note": "\ud800"}, "note", "has control characters"),
        ({"url": "changeme"}, "url", "is a placeholder: paste the value that the service shows"),
    ]:
        with pytest.raises(InvalidInput) as refused:
            check_known_fields(FIELDS, given)
        assert (refused.value.field, refused.value.detail) == (field, words)
    assert check_known_fields(FIELDS, {"url": " abc ", "note": ""}) == {"url": "abc"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("ftp://example.com/", "https://"),
        ("example.com/hook", "https://"),
        ("https://", "https://"),
        ("https://exa mple.com/", "https://"),
        ("https://user:hunter2@example.com/", "user name"),
        ("https://example.com:99999/", "is no address"),
        ("https://[::1/", "is no address"),
        ("https://127.0.0.1/hook", "is loopback"),
        ("https://169.254.169.254/latest", "metadata"),
        ("https://[fd00::1]/", "private"),
        ("http://example.com/hook", "in the clear"),
    ],
)
def test_an_address_that_may_not_be_used_is_refused_without_its_path(value: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        parse_address("url", value, AddressGuard(hint="list it"))
    assert refused.value.field == "url"
    assert "hunter2" not in str(refused.value)


def test_a_listed_host_may_be_private_and_without_tls() -> None:
    address = parse_address("url", "http://10.0.0.7:8080/hook?a=1&a=2", AddressGuard(["10.0.0.0/8"]))
    assert address.origin == "http://10.0.0.7:8080"
    assert address.path == "/hook"


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_webhook_secret_has_24_to_64_bytes(size: int) -> None:
    with pytest.raises(InvalidInput, match=f"has {size} bytes, and needs 24 to 64 bytes; make one with"):
        parse_webhook_secret("secret", "whsec_" + base64.b64encode(bytes(range(size))).decode())


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_webhook_secret_may_lack_its_padding(size: int) -> None:
    key = bytes(range(size))
    assert parse_webhook_secret("secret", "whsec_" + base64.b64encode(key).decode().rstrip("=")) == key


@pytest.mark.parametrize("value", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not base64!", "whsec_" + "A" * 32])
def test_a_webhook_secret_that_is_none_is_refused_without_quoting_it(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_webhook_secret("secret", value)
    assert value not in str(refused.value)


@pytest.mark.parametrize("value", ["short", "a/b/c/d/e/f", "a?b=c&d=e&f=g", "x" * 201, "token with space"])
def test_a_token_is_letters_and_digits(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_token("url", value, "DingTalk")
    assert value not in str(refused.value)
