"""The factory: its kinds, what it checks, and what it never shows."""

from __future__ import annotations

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.notices.channel_factory import NoticeChannels
from crawlfleet.ports.notice_channel import ChannelFactory
from tests.unit.notices.notice_kit import SECRET

TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
WORKING = {
    "webhook": {"url": "https://hooks.example/in", "secret": SECRET},
    "dingtalk": {"url": TOKEN, "secret": "SECa1b2c3", "keyword": "crawl"},
    "feishu": {"url": TOKEN},
    "lark": {"url": TOKEN},
    "wecom": {"url": TOKEN},
    "slack": {"url": "https://hooks.slack.com/services/T0AAA1111/B0BBB2222/c3d4e5f6a7b8c9d0e1f2"},
    "mail": {"host": "mail.example.com", "sender": "a@example.com", "recipients": "b@example.com"},
    "apprise": {"url": f"tgram://123456789:{TOKEN}/987654"},
}


def test_each_kind_can_be_checked_and_opened_and_checked_again() -> None:
    channels: ChannelFactory = NoticeChannels()
    assert set(channels.kinds) == set(WORKING)
    for kind, fields in WORKING.items():
        checked = channels.check_fields(kind, fields)
        assert channels.check_fields(kind, checked) == checked
        channels.open_channel(kind, checked, Language.CHINESE)


def test_every_kind_says_its_fields_and_its_bound() -> None:
    for kind in NoticeChannels().kinds.values():
        assert kind.about.endswith(".")
        assert any(field.is_required for field in kind.fields)
        assert 0 < kind.max_notices <= 60
        for field in kind.fields:
            is_credential = field.name in {"url", "secret", "previous_secret", "password"}
            assert field.is_secret is is_credential


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        ("pigeon", {}, "kind"),
        ("webhook", {"url": "https://hooks.example/in"}, "secret"),
        ("webhook", {"url": "https://hooks.example/in", "secret": "whsec_c2hvcnQ="}, "secret"),
        ("webhook", {**WORKING["webhook"], "previous_secret": "changeme"}, "previous_secret"),
        ("webhook", {"url": "http://hooks.example/in", "secret": SECRET}, "url"),
        ("webhook", {"url": "https://10.1.2.3/in", "secret": SECRET}, "url"),
        ("webhook", {"url": "https://192.168.0.9/in", "secret": SECRET, "token": "x"}, "token"),
        ("dingtalk", {"url": TOKEN, "keyword": "k" * 51}, "keyword"),
        ("dingtalk", {"url": TOKEN, "secret": "xxx"}, "secret"),
        ("feishu", {"url": "YOUR_TOKEN"}, "url"),
        ("slack", {}, "url"),
        ("mail", {"host": "mail.example.com", "sender": "a@example.com"}, "recipients"),
        ("apprise", {"url": "json://example.com/x1"}, "url"),
    ],
)
def test_a_configuration_that_cannot_work_names_its_field(kind: str, fields: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        NoticeChannels().check_fields(kind, fields)
    assert refused.value.field == field
    for value in fields.values():
        assert len(value) < 4 or value not in str(refused.value)


def test_a_listed_address_is_taken() -> None:
    fields = {"url": "http://10.1.2.3/in", "secret": SECRET}
    assert NoticeChannels(["10.0.0.0/8"]).check_fields("webhook", fields) == fields


def test_a_kind_that_does_not_exist_is_not_opened() -> None:
    with pytest.raises(InvalidInput):
        NoticeChannels().open_channel("pigeon", {"url": "x"}, Language.ENGLISH)
