"""A real mail server, with a certificate of its own."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "robot", "b4ttery-st4ple"


@dataclass(slots=True)
class Mailbox:
    """Accepts mails and keeps them; refuses what it is told to refuse."""

    envelopes: list[Envelope] = field(default_factory=list)
    signed_in: list[bool] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    """Replies to recipients that are refused."""
    data_reply: str = "250 Message accepted for delivery"

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.data_reply.startswith("250"):
            self.envelopes.append(envelope)
            self.signed_in.append(session.authenticated is True)
        return self.data_reply


def authenticate(_server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    assert isinstance(data, LoginPassword)
    is_right = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False)


@asynccontextmanager
async def mail_server(
    mailbox: Mailbox, *, over_tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[int]:
    """Run a mail server on a free port, and return the port."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="mail.test", loop=loop, **options), "127.0.0.1", 0, ssl=over_tls
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def scripted_server(*replies: bytes, is_hanging: bool = False) -> AsyncIterator[int]:
    """Run a server that sends one reply at the start and after each line, whatever it reads."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for reply in replies:
                writer.write(reply)
                await writer.drain()
                if not await reader.readline():
                    return
            if is_hanging:
                await reader.read()
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make a certificate for localhost; return the contexts of a server and of a client that trusts it."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))
