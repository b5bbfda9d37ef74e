"""The parts of SMTP that need no server."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from crawlfleet.notices.smtp_session import SmtpRefused, SmtpReply, SmtpSession, escape_dots
from testkit.patience import PATIENCE_S
from tests.unit.notices.mail_kit import scripted_server


@pytest.mark.parametrize(
    ("message", "escaped"),
    [
        (b"a\r\n.\r\nb\r\n", b"a\r\n..\r\nb\r\n"),
        (b".first\r\n", b"..first\r\n"),
        (b"no end", b"no end\r\n"),
        (b"a\r\n..x\r\n", b"a\r\n...x\r\n"),
        (b"a.b\r\n", b"a.b\r\n"),
    ],
)
def test_dots_at_the_beginning_of_a_line_are_doubled(message: bytes, escaped: bytes) -> None:
    assert escape_dots(message) == escaped


def test_a_reply_in_words() -> None:
    assert str(SmtpReply(250, "ok")) == "250 ok"


async def test_what_was_sent_along_with_the_reply_to_starttls_is_not_trusted() -> None:
    replies = (b"220 hello\r\n", b"250-x\r\n250 STARTTLS\r\n", b"220 go on\r\n250 injected\r\n")
    async with asyncio.timeout(PATIENCE_S), scripted_server(*replies, is_hanging=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        session = SmtpSession(reader, writer, "localhost")
        await session.greet()
        with pytest.raises(SmtpRefused, match="more than its reply"):
            await session.start_tls(ssl.create_default_context(), "localhost")
        writer.transport.abort()


async def test_a_server_without_sign_in_is_told_so() -> None:
    replies = (b"220 hello\r\n", b"250-x\r\n250 AUTH CRAM-MD5\r\n")
    async with asyncio.timeout(PATIENCE_S), scripted_server(*replies, is_hanging=True) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        session = SmtpSession(reader, writer, "localhost")
        await session.greet()
        with pytest.raises(SmtpRefused, match="takes no user name"):
            await session.sign_in("a", "b")
        writer.transport.abort()
