"""The incoming webhook of Slack. It confirms with the word `ok` and explains a refusal in one word."""

from __future__ import annotations

import re

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import check_secret, parse_address
from crawlfleet.notices.dialects import SLACK, lay_out
from crawlfleet.notices.http_channel import read_by_status
from crawlfleet.notices.http_post import HttpAnswer, PostRequest, encode_body
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import Delivery

TEXT_BYTES = 4_000
_ORIGIN = "https://hooks.slack.com"
_PATH = re.compile(r"/services/[A-Z0-9]{1,40}/[A-Z0-9]{1,40}/[A-Za-z0-9]{8,80}")
_OK = "ok"
_LASTING = {"invalid_token", "no_service", "no_active_hooks", "no_team", "action_prohibited", "channel_not_found"}
_GONE = {"channel_is_archived"}


class SlackAdapter:
    def __init__(self, url: str, language: Language) -> None:
        self._url = url
        self._language = language

    def make_request(self, notice: Notice, now: Instant) -> PostRequest:
        text = lay_out(write_notice(notice, self._language), SLACK, TEXT_BYTES)
        # Nothing is unfurled: Slack would fetch the links of an installation that may not be public.
        body = {"text": text, "mrkdwn": True, "unfurl_links": False, "unfurl_media": False}
        return PostRequest(self._url, encode_body(body), {})

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        judged = read_by_status(answer)
        word = answer.text.strip()
        is_delivered = answer.status == 200 and word == _OK
        words = judged.answer
        if answer.status == 200 and not is_delivered:
            words = f"no confirmation in the answer: {judged.answer}"
        is_gone = judged.is_gone or word in _GONE
        return Delivery(
            is_delivered=is_delivered,
            answer=words,
            status=answer.status,
            retry_after_s=judged.retry_after_s,
            is_permanent=is_gone or word in _LASTING,
            is_gone=is_gone,
        )


def check_slack_url(value: str, guard: AddressGuard) -> str:
    """Return the address of a webhook from a pasted address. Raises InvalidInput."""
    check_secret("url", value)
    address = parse_address("url", value, guard)
    if not _PATH.fullmatch(address.path):
        raise InvalidInput(f"is no incoming webhook of Slack: {_ORIGIN}/services/T.../B.../...", field="url")
    return f"{address.origin}{address.path}"
