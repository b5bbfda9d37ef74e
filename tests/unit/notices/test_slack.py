"""The incoming webhook of Slack: addresses and message."""

from __future__ import annotations

import json

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.slack import TEXT_BYTES, SlackAdapter, check_slack_url
from tests.unit.notices.notice_kit import NOW, make_large_notice, make_notice

URL = "https://hooks.slack.com/services/T0AAA1111/B0BBB2222/c3d4e5f6a7b8c9d0e1f2"


def test_the_message_is_mrkdwn_without_mentions_from_outside() -> None:
    notice = make_notice(why="<!channel> a < b & c <https://evil.example|here>")
    body = json.loads(SlackAdapter(URL, Language.ENGLISH).make_request(notice, NOW).body)
    lines = body["text"].splitlines()
    assert lines[0] == "*[WARNING] Many executions fail: project shop (prod)*"
    assert "*Why*: &lt;!channel&gt; a &lt; b &amp; c &lt;https://evil.example|here&gt;" in lines
    assert lines[-1] == "<https://crawl.example/alerts/failure_rate|Open>"
    assert body["unfurl_links"] is False


def test_the_link_is_escaped_as_text_is() -> None:
    notice = make_notice(link="https://crawl.example/alerts?rule=a&scope=b")
    body = json.loads(SlackAdapter(URL, Language.ENGLISH).make_request(notice, NOW).body)
    assert body["text"].endswith("<https://crawl.example/alerts?rule=a&amp;scope=b|Open>")


def test_the_largest_message_fits_and_no_escape_is_cut_in_two() -> None:
    body = json.loads(SlackAdapter(URL, Language.CHINESE).make_request(make_large_notice(), NOW).body)
    assert len(body["text"].encode()) <= TEXT_BYTES
    for piece in body["text"].split("&")[1:]:
        assert piece.startswith(("lt;", "gt;", "amp;"))


def test_a_pasted_address_is_taken() -> None:
    assert check_slack_url(f"{URL}?x=1", AddressGuard()) == URL


@pytest.mark.parametrize(
    "value",
    [
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "https://hooks.slack.com/workflows/T0AAA1111/A1/123/abc",
        "https://example.com/",
        "xoxb-123-456-abcdef",
    ],
)
def test_what_is_no_incoming_webhook_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_slack_url(value, AddressGuard())
    assert value not in str(refused.value)
