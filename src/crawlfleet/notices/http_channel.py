"""A channel over HTTP: an adapter makes the request of its service and reads the answer; the rest is shared."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Protocol

from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Notice
from crawlfleet.notices.http_post import HttpAnswer, HttpPoster, PostFailed, PostRequest
from crawlfleet.notices.secret_filter import SecretFilter
from crawlfleet.notices.texts import clean_line
from crawlfleet.ports.notice_channel import ANSWER_CHARS, Delivery

_PAGE_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_GONE = 410
_TOO_MANY = 429


class ServiceAdapter(Protocol):
    """What is particular to one service."""

    def make_request(self, notice: Notice, now: Instant) -> PostRequest: ...

    def read_answer(self, answer: HttpAnswer) -> Delivery:
        """Judge an answer by what the service itself says in it. The words may still contain secrets."""
        ...


class HttpChannel:
    """Sends notices to one service."""

    def __init__(self, adapter: ServiceAdapter, poster: HttpPoster, secrets: SecretFilter) -> None:
        self._adapter = adapter
        self._poster = poster
        self._secrets = secrets

    async def send(self, notice: Notice, now: Instant) -> Delivery:
        try:
            request = self._adapter.make_request(notice, now)
            delivery = self._adapter.read_answer(await self._poster.post(request, now))
        except PostFailed as exc:
            delivery = Delivery(is_delivered=False, answer=str(exc), is_permanent=exc.is_permanent)
        return hide_secrets(delivery, self._secrets)

    async def close(self) -> None:
        """Hold nothing: each request has a connection of its own."""


def hide_secrets(delivery: Delivery, secrets: SecretFilter) -> Delivery:
    """Return a delivery whose words are one short line without secrets."""
    # Secrets first: the line is cut afterwards, and half of a secret would not be recognised.
    words = clean_line(secrets.hide(delivery.answer), ANSWER_CHARS)
    return Delivery(
        is_delivered=delivery.is_delivered,
        answer=words,
        status=delivery.status,
        retry_after_s=delivery.retry_after_s,
        is_permanent=delivery.is_permanent,
        is_gone=delivery.is_gone,
    )


def read_by_status(answer: HttpAnswer) -> Delivery:
    """Judge an answer by its status alone: 2xx is delivered, 410 is gone."""
    is_delivered = 200 <= answer.status < 300
    return Delivery(
        is_delivered=is_delivered,
        answer=describe_answer(answer),
        status=answer.status,
        retry_after_s=None if is_delivered else answer.retry_after_s,
        is_permanent=answer.status == _GONE,
        is_gone=answer.status == _GONE,
    )


def read_by_code(
    answer: HttpAnswer,
    code_names: Collection[str],
    *,
    too_often: Collection[int],
    lasting: Collection[int],
    wait_s: float,
) -> Delivery:
    """Judge an answer by the code in its body: 0 under one of `code_names` is delivered, and nothing else.

    `too_often` are the codes of a rate that was exceeded: the service wants `wait_s` of silence. `lasting` are those of
    a configuration that a person has to change.
    """
    body = answer.parse_object()
    code = None
    for name in code_names:
        if body is not None and isinstance(body.get(name), int) and not isinstance(body[name], bool):
            code = body[name]
            break
    if answer.status != 200 or code is None:
        judged = read_by_status(answer)
        words = judged.answer if answer.status != 200 else f"no confirmation in the answer: {judged.answer}"
        return Delivery(
            is_delivered=False,
            answer=words,
            status=answer.status,
            retry_after_s=_wait_of_status(answer, wait_s),
            is_permanent=judged.is_permanent or code in lasting,
            is_gone=judged.is_gone,
        )
    is_too_often = code in too_often
    return Delivery(
        is_delivered=code == 0,
        answer=describe_answer(answer),
        status=answer.status,
        retry_after_s=max(wait_s, answer.retry_after_s or 0.0) if is_too_often else None,
        is_permanent=code in lasting,
    )


def describe_answer(answer: HttpAnswer) -> str:
    """Return the service's own words; of a page in HTML only the title."""
    text = answer.text.strip()
    if text.startswith("<"):
        title = _PAGE_TITLE.search(text[:4_000])
        text = title.group(1) if title else "a page in HTML"
    if 200 <= answer.status < 300:
        return text or f"status {answer.status}"
    return f"status {answer.status}: {text}" if text else f"status {answer.status}"


def _wait_of_status(answer: HttpAnswer, wait_s: float) -> float | None:
    if answer.status == _TOO_MANY:
        return wait_s if answer.retry_after_s is None else answer.retry_after_s
    return answer.retry_after_s
