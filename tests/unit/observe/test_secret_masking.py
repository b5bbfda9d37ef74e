"""Secrets in text that libraries make are masked, whatever is around them; ordinary text stays as it is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.observe.secret_masking import MASK, mask_fields, mask_secrets

SECRET = "s3cr3t-Abc123_xyz"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://fleet:{SECRET}@db:5432/fleet?sslmode=require",
        f"could not connect to redis://:{SECRET}@cache:6379/0",
        f"proxy 'http://user:{SECRET}@10.0.0.1:3128' refused",
        f"https://{SECRET}@sentry.example/1",
        f"POST https://oapi.dingtalk.com/robot/send?access_token={SECRET}&timestamp=1",
        f"Authorization: Bearer {SECRET}",
        f"{{'Authorization': 'Basic {SECRET}'}}",
        f"Set-Cookie: session={SECRET}; Path=/; HttpOnly",
        f"cookie: a=b; session={SECRET}",
        f"secret={SECRET}",
        f'{{"enrol_token": "{SECRET}"}}',
        f"AWS_SECRET_ACCESS_KEY={SECRET}/+abc=",
        f"api_key: '{SECRET}'",
        f"x-api-key: {SECRET}",
        f"password = {SECRET}",
        f"webhook-signature: v1,{SECRET}",
        f"secret='{SECRET}', next=1",
    ],
)
def test_a_secret_is_masked_wherever_it_stands(text: str) -> None:
    assert SECRET not in mask_secrets(text)
    assert MASK in mask_secrets(text)
    assert SECRET not in repr(mask_fields({"error": text, "nested": [{"deep": (text, ValueError(text))}]}))


@pytest.mark.parametrize(
    "text",
    [
        "admin_token=/var/lib/crawlfleet/admin.token nodes=2",
        "http://127.0.0.1:8000/api/v1/tasks?limit=5",
        "not_joined: the enrol token is not known",
        "a bearer token is needed",
        "user@example.com wrote to http://example.com/a@b",
        "2026-11-18T07:00:00Z [info     ] master_started",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_a_value_is_masked_by_its_name() -> None:
    event = {"node_secret": SECRET, "options": {"password": SECRET, "slots": 4, "is_ready": True}}
    masked = mask_fields({**event, "file": Path("/tmp/a"), "admin_token": "/var/lib/admin.token"})
    assert masked["node_secret"] == MASK
    assert masked["options"] == {"password": MASK, "slots": 4, "is_ready": True}
    assert masked["admin_token"] == "/var/lib/admin.token"


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(mask_secrets(text), str)
    assert mask_fields({text: text}).keys() == {text}
