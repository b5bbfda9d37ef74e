"""Mail, to a real server: STARTTLS, TLS, sign-in, refusals, faults, and the message itself."""

from __future__ import annotations

import asyncio
import email
import email.policy
import shutil
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_factory import NoticeChannels
from crawlfleet.notices.mail import MailChannel, check_mail_fields, compose_mail, parse_route
from crawlfleet.ports.notice_channel import Delivery
from testkit.patience import PATIENCE_S
from tests.unit.notices.mail_kit import (
    PASSWORD,
    USER,
    Mailbox,
    authenticate,
    mail_server,
    make_certificate,
    scripted_server,
)
from tests.unit.notices.notice_kit import NOW, make_large_notice, make_notice

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
FIELDS = {"host": "localhost", "sender": "crawlfleet@example.com", "recipients": "ops@example.com, dev@example.com"}


async def send_mail(
    port: int,
    notice: Notice | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    send_s: float = PATIENCE_S,
    **fields: str,
) -> Delivery:
    channels = NoticeChannels(["localhost"], send_s=send_s, tls=tls)
    checked = channels.check_fields("mail", FIELDS | {"port": str(port), "security": "none"} | fields)
    return await channels.open_channel("mail", checked, Language.ENGLISH).send(notice or make_notice(), NOW)


def parse_mail(content: Any) -> EmailMessage:
    message = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


async def test_a_mail_arrives_with_the_id_of_the_notice() -> None:
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        delivery = await send_mail(port)
    assert (delivery.is_delivered, delivery.status) == (True, 250)
    assert delivery.answer == "250 Message accepted for delivery"
    envelope = mailbox.envelopes[0]
    assert (envelope.mail_from, envelope.rcpt_tos) == ("crawlfleet@example.com", ["ops@example.com", "dev@example.com"])
    message = parse_mail(envelope.content)
    assert message["Message-ID"] == "<notice-17@example.com>"
    assert message["Subject"] == "[WARNING] Many executions fail: project shop (prod)"
    assert message["Auto-Submitted"] == "auto-generated"
    text, page = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert page is not None
    assert "Value: 23.4 %" in text.get_content()
    assert "Open: https://crawl.example/alerts/failure_rate" in text.get_content()
    assert '<a href="https://crawl.example/alerts/failure_rate">Open</a>' in page.get_content()


@needs_openssl
@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_mail_goes_over_tls_after_signing_in(tmp_path: Path, security: str) -> None:
    server, client = await asyncio.to_thread(make_certificate, tmp_path)
    options: dict[str, Any] = {"authenticator": authenticate}
    if security == "tls":
        options |= {"over_tls": server, "auth_require_tls": False}
    else:
        options |= {"tls_context": server, "require_starttls": True, "auth_required": True}
    mailbox = Mailbox()
    async with mail_server(mailbox, **options) as port:
        delivery = await send_mail(port, tls=client, security=security, username=USER, password=PASSWORD)
        refused = await send_mail(port, tls=client, security=security, username=USER, password="wr0ng-passw0rd")
    assert delivery.is_delivered, delivery
    assert mailbox.signed_in == [True]
    assert (refused.is_delivered, refused.status, refused.is_permanent) == (False, 535, True)
    assert "the server refused the user name and password: 535" in refused.answer


@needs_openssl
async def test_a_certificate_that_is_not_trusted_ends_the_attempt_before_the_password(tmp_path: Path) -> None:
    server, _ = await asyncio.to_thread(make_certificate, tmp_path)
    mailbox = Mailbox()
    async with mail_server(mailbox, tls_context=server, authenticator=authenticate) as port:
        delivery = await send_mail(port, security="starttls", username=USER, password=PASSWORD)
    assert not delivery.is_delivered
    assert delivery.answer == "no TLS connection to localhost: self-signed certificate"
    assert mailbox.envelopes == []


async def test_a_server_without_starttls_gets_neither_password_nor_mail() -> None:
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        delivery = await send_mail(port, security="starttls", username=USER, password=PASSWORD)
    assert not delivery.is_delivered
    assert "offers no STARTTLS" in delivery.answer
    assert mailbox.envelopes == []


async def test_one_refused_recipient_does_not_keep_the_mail_from_the_others() -> None:
    mailbox = Mailbox(refusals={"dev@example.com": "550 no such user"})
    async with mail_server(mailbox) as port:
        delivery = await send_mail(port)
    assert delivery.is_delivered
    assert delivery.answer.endswith("; refused dev@example.com: 550 no such user")
    assert mailbox.envelopes[0].rcpt_tos == ["ops@example.com"]


@pytest.mark.parametrize(
    ("replies", "status", "is_permanent"),
    [
        (("550 no such user", "553 not here"), 550, True),
        (("450 greylisted, try again", "550 no such user"), 450, False),
    ],
)
async def test_no_mail_is_sent_when_no_recipient_is_accepted(
    replies: tuple[str, str], status: int, is_permanent: bool
) -> None:
    mailbox = Mailbox(refusals=dict(zip(("ops@example.com", "dev@example.com"), replies, strict=True)))
    async with mail_server(mailbox) as port:
        delivery = await send_mail(port)
    assert (delivery.is_delivered, delivery.status, delivery.is_permanent) == (False, status, is_permanent)
    assert replies[0] in delivery.answer


@pytest.mark.parametrize(("reply", "is_permanent"), [("552 mailbox full", True), ("451 try later", False)])
async def test_a_message_that_the_server_refuses_is_not_delivered(reply: str, is_permanent: bool) -> None:
    async with mail_server(Mailbox(data_reply=reply)) as port:
        delivery = await send_mail(port)
    assert (delivery.is_delivered, delivery.is_permanent) == (False, is_permanent)
    assert delivery.answer == f"the server refused the message: {reply}"


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n",), "the server does not speak SMTP"),
        ((b"x" * 70_000 + b"\r\n",), "a line that is too long"),
        ((b"220 hello\r\n", b"250-more\r\n" * 200), "a reply without end"),
        ((b"220 hello\r\n",), "closed the connection"),
        ((b"554 go away\r\n",), "the server refused greeting: 554 go away"),
        ((b"220 hello\r\n", b"250 ok\r\n", b"250 ok\r\n", b"250 ok\r\n"), "closed the connection"),
    ],
)
async def test_a_server_that_misbehaves_is_described(replies: tuple[bytes, ...], words: str) -> None:
    async with scripted_server(*replies) as port:
        delivery = await send_mail(port)
    assert not delivery.is_delivered
    assert words in delivery.answer


async def test_a_server_that_hangs_is_left_in_time() -> None:
    async with scripted_server(b"220 hello\r\n", is_hanging=True) as port:
        delivery = await send_mail(port, send_s=0.4)
    assert delivery.answer == "no confirmation within 0.4 s"


async def test_a_port_without_server_is_named() -> None:
    async with scripted_server() as port:
        pass
    delivery = await send_mail(port)
    assert delivery.answer.startswith(f"no connection to localhost:{port}: ")


async def test_a_name_that_leads_to_a_private_address_is_refused() -> None:
    checked = check_mail_fields(FIELDS, AddressGuard(["localhost"]))
    async with scripted_server(b"220 hello\r\n") as port:
        route = parse_route(checked | {"port": str(port)})
        channel = MailChannel(route, AddressGuard(hint="list it"), Language.ENGLISH, send_s=PATIENCE_S)
        delivery = await channel.send(make_notice(), NOW)
    assert (delivery.is_delivered, delivery.is_permanent) == (False, True)
    assert delivery.answer.endswith("is loopback: list it")


async def test_a_password_that_the_server_echoes_is_hidden() -> None:
    replies = (b"220 hello\r\n", b"250-x\r\n250 AUTH LOGIN\r\n", b"334 a\r\n", b"334 b\r\n")
    async with scripted_server(*replies, f"535 {PASSWORD} is wrong\r\n".encode()) as port:
        delivery = await send_mail(port, username=USER, password=PASSWORD)
    assert delivery.answer == "the server refused the user name and password: 535 *** is wrong"


@pytest.mark.parametrize("language", Language)
def test_the_largest_mail_is_ascii_with_short_lines(language: Language) -> None:
    route = parse_route(check_mail_fields(FIELDS, AddressGuard()))
    content = compose_mail(make_large_notice(), route, language, NOW)
    assert content.isascii()
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert b"\n" not in content.replace(b"\r\n", b"")


def test_a_name_from_outside_adds_no_header() -> None:
    notice = make_notice(scope="project:x\r\nBcc: evil@example.com", installation="a\nb")
    message = parse_mail(
        compose_mail(notice, parse_route(check_mail_fields(FIELDS, AddressGuard())), Language.CHINESE, NOW)
    )
    assert "Bcc" not in message
    assert message["Subject"] == "[警告] 执行失败率过高：项目 x Bcc: evil@example.com (a b)"


@pytest.mark.parametrize(
    ("state", "severity", "priority"),
    [
        (NoticeState.FIRING, Severity.CRITICAL, "urgent"),
        (NoticeState.RECOVERED, Severity.CRITICAL, "normal"),
        (NoticeState.FIRING, Severity.INFO, "non-urgent"),
    ],
)
def test_the_priority_is_that_of_the_alert(state: NoticeState, severity: Severity, priority: str) -> None:
    route = parse_route(check_mail_fields(FIELDS, AddressGuard()))
    content = compose_mail(make_notice(state=state, severity=severity), route, Language.ENGLISH, NOW)
    assert parse_mail(content)["Priority"] == priority


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"security": "ssl"}, "security"),
        ({"security": "none"}, "security"),
        ({"port": "0"}, "port"),
        ({"port": "65536"}, "port"),
        ({"port": "smtp"}, "port"),
        ({"port": "٢٥"}, "port"),
        ({"host": "mail.example.com:25"}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "10.0.0.1"}, "host"),
        ({"host": "[::1]"}, "host"),
        ({"username": "me"}, "password"),
        ({"password": "me"}, "username"),
        ({"sender": "nobody"}, "sender"),
        ({"sender": "a@b.example, c@d.example"}, "sender"),
        ({"recipients": "a@b.example, <script>"}, "recipients"),
        ({"recipients": " , "}, "recipients"),
        ({"recipients": ",".join(f"a{number}@b.example" for number in range(51))}, "recipients"),
        ({"recipients": "a@b.example>\x7fRCPT"}, "recipients"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(changes: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_mail_fields(FIELDS | {"host": "mail.example.com"} | changes, AddressGuard())
    assert refused.value.field == field


def test_the_port_follows_the_security() -> None:
    for security, port in [("starttls", "587"), ("tls", "465")]:
        assert check_mail_fields(FIELDS | {"security": security}, AddressGuard())["port"] == port
    assert check_mail_fields(FIELDS, AddressGuard())["recipients"] == "ops@example.com,dev@example.com"
