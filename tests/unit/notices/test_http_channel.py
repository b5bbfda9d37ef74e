"""Channels over HTTP, against receivers that behave as the services do and fail in every way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from crawlfleet.notices.http_channel import describe_answer, read_by_code, read_by_status
from crawlfleet.notices.http_post import HttpAnswer
from testkit.notice_receiver import (
    DingtalkService,
    Fault,
    FeishuService,
    NoticeReceiver,
    SlackService,
    WecomService,
    accept_all,
)
from tests.unit.notices.notice_kit import SECRET, make_large_notice, make_notice, send_once

TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
SLACK_PATH = "/services/T0AAA1111/B0BBB2222/c3d4e5f6a7b8c9d0e1f2"
SEND_S = 0.4


class Service(NamedTuple):
    kind: str
    make: Callable[[], Any]
    path: str
    fields: Mapping[str, str] = {}


SERVICES = [
    Service("webhook", lambda: accept_all, "/hook", {"secret": SECRET}),
    Service("dingtalk", lambda: DingtalkService(TOKEN, "SECabc123def456"), f"/robot/send?access_token={TOKEN}"),
    Service("feishu", lambda: FeishuService(TOKEN, "q2v5y8B/E%H"), f"/open-apis/bot/v2/hook/{TOKEN}"),
    Service("lark", lambda: FeishuService(TOKEN, "q2v5y8B/E%H"), f"/open-apis/bot/v2/hook/{TOKEN}"),
    Service("wecom", lambda: WecomService(TOKEN), f"/cgi-bin/webhook/send?key={TOKEN}"),
    Service("slack", lambda: SlackService(SLACK_PATH), SLACK_PATH),
]
SIGNED = {"dingtalk": "SECabc123def456", "feishu": "q2v5y8B/E%H", "lark": "q2v5y8B/E%H"}
every_service = pytest.mark.parametrize("service", SERVICES, ids=[service.kind for service in SERVICES])


def fields_for(service: Service, receiver: NoticeReceiver) -> dict[str, str]:
    signed = {"secret": SIGNED[service.kind]} if service.kind in SIGNED else {}
    return {"url": receiver.origin + service.path, **service.fields, **signed}


@every_service
async def test_a_notice_is_delivered_when_the_service_confirms_it(service: Service) -> None:
    async with NoticeReceiver(service.make()) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver))
    assert delivery.is_delivered, delivery
    assert len(receiver.requests) == 1
    assert receiver.requests[0].headers["content-type"] == "application/json; charset=utf-8"


@every_service
async def test_the_largest_notice_stays_within_the_limit_of_the_service(service: Service) -> None:
    async with NoticeReceiver(service.make()) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver), make_large_notice())
    assert delivery.is_delivered, delivery


@every_service
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.CLOSE, "closed before the answer"),
        (Fault.CUT, "broke off"),
        (Fault.REDIRECT, "redirects are not followed"),
        (Fault.HUGE, "larger than 64 KiB"),
        (Fault.PAGE, "status 502: 502 Bad Gateway"),
        (Fault.NOT_HTTP, "not HTTP"),
    ],
)
async def test_every_fault_is_told_and_may_be_tried_again(service: Service, fault: Fault, words: str) -> None:
    async with NoticeReceiver(service.make(), fault) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver))
    assert not delivery.is_delivered
    assert words in delivery.answer
    assert not delivery.is_permanent
    assert not delivery.is_gone
    assert [request.path for request in receiver.requests] == [service.path.partition("?")[0]]


@every_service
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
async def test_a_service_that_never_ends_its_answer_is_left_in_time(service: Service, fault: Fault) -> None:
    async with NoticeReceiver(service.make(), fault) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver), send_s=SEND_S)
    assert not delivery.is_delivered
    assert delivery.answer == f"no answer within {SEND_S} s"


@every_service
async def test_retry_after_is_kept(service: Service) -> None:
    async with NoticeReceiver(service.make(), Fault.BUSY) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver))
    assert (delivery.is_delivered, delivery.status, delivery.retry_after_s) == (False, 429, 37.0)
    assert delivery.answer == "status 429: slow down"


@every_service
async def test_an_address_that_is_gone_is_told_as_gone(service: Service) -> None:
    async with NoticeReceiver(service.make(), Fault.GONE) as receiver:
        delivery = await send_once(service.kind, fields_for(service, receiver))
    assert (delivery.is_delivered, delivery.is_gone, delivery.is_permanent) == (False, True, True)
    assert delivery.answer == "status 410: no such hook"


@every_service
async def test_no_secret_stands_in_what_a_service_echoes(service: Service) -> None:
    def echo(request: Any) -> tuple[int, str]:
        return 500, f"cannot take {request.path}?{request.query} {request.headers} {request.body[:50]!r}"

    async with NoticeReceiver(echo) as receiver:
        fields = fields_for(service, receiver)
        delivery = await send_once(service.kind, fields)
    assert delivery.status == 500
    for secret in (TOKEN, "c3d4e5f6a7b8c9d0e1f2", fields.get("secret", TOKEN)):
        assert secret not in repr(delivery)


@pytest.mark.parametrize("kind", ["dingtalk", "feishu", "lark"])
async def test_a_wrong_signature_is_refused_inside_an_answer_of_200(kind: str) -> None:
    service = next(service for service in SERVICES if service.kind == kind)
    async with NoticeReceiver(service.make()) as receiver:
        delivery = await send_once(kind, fields_for(service, receiver) | {"secret": "SECanother987"})
    assert (delivery.is_delivered, delivery.status, delivery.is_permanent) == (False, 200, True)
    assert "sign" in delivery.answer


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
async def test_a_keyword_that_the_robot_asks_for_is_in_each_message(kind: str) -> None:
    made = DingtalkService(TOKEN, keyword="[告警!]") if kind == "dingtalk" else FeishuService(TOKEN, keyword="[告警!]")
    path = next(service.path for service in SERVICES if service.kind == kind)
    async with NoticeReceiver(made) as receiver:
        refused = await send_once(kind, {"url": receiver.origin + path})
        accepted = await send_once(kind, {"url": receiver.origin + path, "keyword": "[告警!]"}, make_large_notice())
    assert not refused.is_delivered
    assert "eyword" in refused.answer or "Key Words" in refused.answer
    assert TOKEN not in refused.answer
    assert accepted.is_delivered, accepted


async def test_a_robot_that_has_had_enough_is_left_alone() -> None:
    async with NoticeReceiver(WecomService(TOKEN, left=1)) as receiver:
        url = f"{receiver.origin}/cgi-bin/webhook/send?key={TOKEN}"
        first = await send_once("wecom", {"url": url})
        second = await send_once("wecom", {"url": url})
    assert first.is_delivered
    assert (second.is_delivered, second.retry_after_s, second.is_permanent) == (False, 60.0, False)
    assert "api freq out of limit" in second.answer


@pytest.mark.parametrize(
    ("word", "status", "is_permanent", "is_gone"),
    [
        ("invalid_token", 403, True, False),
        ("channel_is_archived", 410, True, True),
        ("rollup_error", 500, False, False),
        ("fine", 200, False, False),
    ],
)
async def test_slack_explains_a_refusal_in_one_word(word: str, status: int, is_permanent: bool, is_gone: bool) -> None:
    async with NoticeReceiver(SlackService(SLACK_PATH, word, status)) as receiver:
        delivery = await send_once("slack", {"url": receiver.origin + SLACK_PATH})
    assert not delivery.is_delivered
    assert word in delivery.answer
    assert (delivery.is_permanent, delivery.is_gone) == (is_permanent, is_gone)


async def test_a_service_that_nothing_answers_for_is_named_without_its_secret() -> None:
    async with NoticeReceiver(accept_all) as receiver:
        port = receiver.port
    delivery = await send_once("webhook", {"url": f"http://127.0.0.1:{port}/{TOKEN}", "secret": SECRET})
    assert delivery.answer == f"no connection to 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize("body", ["", "ok", "[]", "null", '{"errcode":"0"}', '{"errcode":false}', "{" * 5_000, "0"])
def test_only_the_code_zero_is_a_confirmation(body: str) -> None:
    delivery = read_by_code(HttpAnswer(200, body), ("errcode",), too_often={1}, lasting={2}, wait_s=9)
    assert not delivery.is_delivered
    assert delivery.answer.startswith("no confirmation in the answer")


def test_a_code_decides_also_where_the_status_is_an_error() -> None:
    delivery = read_by_code(HttpAnswer(400, '{"code":2}'), ("code",), too_often={1}, lasting={2}, wait_s=9)
    assert (delivery.is_delivered, delivery.is_permanent) == (False, True)
    late = read_by_code(HttpAnswer(500, '{"code":0}'), ("code",), too_often={1}, lasting={2}, wait_s=9)
    assert not late.is_delivered


def test_the_words_of_an_answer() -> None:
    assert describe_answer(HttpAnswer(204, "")) == "status 204"
    assert describe_answer(HttpAnswer(500, "<html><title>Oops</title>")) == "status 500: Oops"
    assert describe_answer(HttpAnswer(500, "<html>")) == "status 500: a page in HTML"
    assert read_by_status(HttpAnswer(202, "queued")).answer == "queued"


async def test_a_text_of_a_service_is_one_line_that_cannot_control_a_terminal() -> None:
    async with NoticeReceiver(lambda _request: (500, "bad\r\n\x1b[31mred\u202e" + "x" * 1_000)) as receiver:
        delivery = await send_once("webhook", {"url": f"{receiver.origin}/h", "secret": SECRET}, make_notice())
    assert delivery.answer.startswith("status 500: bad [31mred xxx")
    assert len(delivery.answer) == 300
