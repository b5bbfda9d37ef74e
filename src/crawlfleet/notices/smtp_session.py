"""One session with a mail server (RFC 5321), over asyncio: a server that hangs or drips is ended by a deadline.

The standard library's client blocks a thread, and only bounds each single read; so it cannot keep a deadline for all.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Sequence
from typing import NamedTuple

_LINE_BYTES = 4_096
_REPLY_LINES = 100
_READY, _OK, _CONTINUE_AUTH, _START_MAIL, _SIGNED_IN = 220, 250, 334, 354, 235
_FORWARDED = 251


class SmtpReply(NamedTuple):
    """A reply of the server: its code and its words."""

    code: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class SmtpRefused(Exception):
    """The server refused a command, or sent something that is no reply."""

    def __init__(self, words: str, code: int | None = None) -> None:
        super().__init__(words)
        self.code = code


class SmtpSession:
    """A session over an open connection. Every command raises SmtpRefused unless the server accepts it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, local_name: str) -> None:
        self._reader = reader
        self._writer = writer
        self._local_name = local_name
        self._extensions: dict[str, str] = {}

    async def greet(self) -> None:
        await self._expect(await self._read_reply(), _READY, "greeting")
        await self._say_hello()

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Change to TLS. The server has to offer it: a connection in the clear is never used in its place."""
        if "STARTTLS" not in self._extensions:
            raise SmtpRefused("the server offers no STARTTLS: set security to tls, or give the port for mail clients")
        await self._expect(await self._command("STARTTLS"), _READY, "STARTTLS")
        # What a man in the middle sent before the encryption must not be read as part of it.
        if self._has_unread_bytes():
            raise SmtpRefused("the server sent more than its reply to STARTTLS")
        await self._writer.start_tls(context, server_hostname=host)
        await self._say_hello()

    async def sign_in(self, username: str, password: str) -> None:
        mechanisms = self._extensions.get("AUTH", "").upper().split()
        if "PLAIN" in mechanisms:
            token = _encode(f"\0{username}\0{password}")
            await self._expect(await self._command(f"AUTH PLAIN {token}"), _SIGNED_IN, "the user name and password")
        elif "LOGIN" in mechanisms:
            await self._expect(await self._command("AUTH LOGIN"), _CONTINUE_AUTH, "AUTH LOGIN")
            await self._expect(await self._command(_encode(username)), _CONTINUE_AUTH, "the user name")
            await self._expect(await self._command(_encode(password)), _SIGNED_IN, "the user name and password")
        else:
            raise SmtpRefused("the server takes no user name and password on this connection")

    async def send_mail(self, sender: str, recipients: Sequence[str], message: bytes) -> tuple[SmtpReply, list[str]]:
        """Send a message to the recipients that the server accepts; return its confirmation and what it refused.

        Raises SmtpRefused when it accepts none of them.
        """
        await self._expect(await self._command(f"MAIL FROM:<{sender}>"), _OK, "the sender")
        refusals: list[tuple[str, SmtpReply]] = []
        for recipient in recipients:
            reply = await self._command(f"RCPT TO:<{recipient}>")
            if reply.code not in (_OK, _FORWARDED):
                refusals.append((recipient, reply))
        words = [f"{recipient}: {reply}" for recipient, reply in refusals]
        if len(refusals) == len(recipients):
            # A recipient that is refused for now may be accepted later: the mildest code decides.
            raise SmtpRefused(
                f"no recipient was accepted: {'; '.join(words)}", min(reply.code for _, reply in refusals)
            )
        await self._expect(await self._command("DATA"), _START_MAIL, "DATA")
        self._writer.write(escape_dots(message) + b".\r\n")
        await self._writer.drain()
        return await self._expect(await self._read_reply(), _OK, "the message"), words

    async def _say_hello(self) -> None:
        reply = await self._expect(await self._command(f"EHLO {self._local_name}"), _OK, "EHLO")
        lines = reply.text.split("\n")[1:]
        self._extensions = {}
        for line in lines:
            name, _, parameters = line.replace("=", " ", 1).partition(" ")
            self._extensions[name.upper()] = parameters

    async def _command(self, line: str) -> SmtpReply:
        self._writer.write(line.encode("ascii") + b"\r\n")
        await self._writer.drain()
        return await self._read_reply()

    async def _read_reply(self) -> SmtpReply:
        lines: list[str] = []
        for _ in range(_REPLY_LINES):
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as exc:
                raise SmtpRefused("the server closed the connection") from exc
            except asyncio.LimitOverrunError as exc:
                raise SmtpRefused("the server sent a line that is too long") from exc
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if len(raw) > _LINE_BYTES or not line[:3].isdigit() or line[3:4] not in ("", " ", "-"):
                raise SmtpRefused("the server does not speak SMTP")
            lines.append(line[4:])
            if line[3:4] != "-":
                return SmtpReply(int(line[:3]), "\n".join(lines))
        raise SmtpRefused("the server sent a reply without end")

    async def _expect(self, reply: SmtpReply, code: int, subject: str) -> SmtpReply:
        if reply.code != code:
            raise SmtpRefused(f"the server refused {subject}: {reply}", reply.code)
        return reply

    def _has_unread_bytes(self) -> bool:
        # The reader shows its buffer in no other way.
        return bool(getattr(self._reader, "_buffer", b""))


def escape_dots(message: bytes) -> bytes:
    """Return a message of lines that end with CRLF, with dots at their beginning doubled (RFC 5321, 4.5.2)."""
    body = message if message.endswith(b"\r\n") else message + b"\r\n"
    body = body.replace(b"\r\n.", b"\r\n..")
    return b"." + body if body.startswith(b".") else body


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
